//! The state directory.

use crate::error::ControlError;
use crate::random;
use crate::registry::{Registry, SCHEMA_VERSION};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use varve_hostio::{Io, aside, replace_file};
use varve_io::Flow;
use varve_pool::label::Owner;

/// The state directory; see the crate's documentation for what lies in it.
#[derive(Clone, Debug)]
pub struct Home {
    directory: PathBuf,
}

/// As long as this lives, no other daemon has the state directory.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

/// As long as this lives, nobody else gives names to pools here.
#[derive(Debug)]
pub(crate) struct Naming {
    _lock: File,
}

impl Home {
    /// Where it usually is: `/var/lib/varve` for root, else `$XDG_STATE_HOME/varve` or
    /// `~/.local/state/varve`.
    #[must_use]
    pub fn usual() -> PathBuf {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
        if is_root {
            return PathBuf::from("/var/lib/varve");
        }
        let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let state = named.filter(|path| path.is_absolute()).unwrap_or_else(|| {
            let home = std::env::var_os("HOME").unwrap_or_else(|| "/".into());
            PathBuf::from(home).join(".local/state")
        });
        state.join("varve")
    }

    /// Takes a directory for it, which is made if it does not exist.
    ///
    /// # Errors
    /// It cannot be made, is no directory, or its path is too long for the socket in it.
    pub fn open(directory: &Path) -> Result<Self, ControlError> {
        let home = Self::named(directory)?;
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&home.directory);
        made.map_err(|error| ControlError::home(&home.directory, error))?;
        Ok(home)
    }

    /// Takes a directory for it if it is there; nothing is made.
    ///
    /// # Errors
    /// It cannot be looked at, is no directory, or its path is too long for the socket in it.
    pub fn find(directory: &Path) -> Result<Option<Self>, ControlError> {
        let home = Self::named(directory)?;
        let found = match std::fs::metadata(&home.directory) {
            Ok(meta) if meta.is_dir() => return Ok(Some(home)),
            Ok(_) => io::ErrorKind::NotADirectory.into(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => error,
        };
        Err(ControlError::home(&home.directory, found))
    }

    /// Takes a directory for it, whether it is there or not; nothing is made.
    ///
    /// # Errors
    /// Its path is too long for the socket in it.
    pub(crate) fn named(directory: &Path) -> Result<Self, ControlError> {
        let directory = crate::path::absolute(directory);
        let home = Self { directory };
        // What nothing could listen in is refused before it is made.
        match SocketAddr::from_pathname(home.socket()) {
            Ok(_) => Ok(home),
            Err(_) => Err(ControlError::StatePath(home.directory)),
        }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a daemon that uses it listens for commands.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join("varve.sock")
    }

    /// Keeps other daemons out.
    ///
    /// # Errors
    /// [`ControlError::Daemon`] if there is one; the system's.
    pub fn hold(&self) -> Result<Held, ControlError> {
        let path = self.directory.join("daemon.lock");
        match try_lock(&path).map_err(|error| ControlError::home(&path, error))? {
            Some(lock) => Ok(Held { _lock: lock }),
            None => Err(ControlError::Daemon(self.directory.clone())),
        }
    }

    /// Keeps others from giving names to pools here; nothing if somebody is at it. Whoever makes a pool
    /// keeps this until the registry knows it: a name that was free is free until then, and what is cut
    /// short leaves no name behind that stands for nothing.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn try_naming(&self) -> Result<Option<Naming>, ControlError> {
        let path = self.directory.join("names.lock");
        let lock = try_lock(&path).map_err(|error| ControlError::home(&path, error))?;
        Ok(lock.map(|lock| Naming { _lock: lock }))
    }

    /// Who this machine is to the labels of pools; drawn the first time.
    ///
    /// # Errors
    /// The system's, or the file holds something else.
    pub fn owner(&self) -> Result<Owner, ControlError> {
        if let Some(owner) = self.known_owner()? {
            return Ok(owner);
        }
        let _alone = self.lock()?;
        // Somebody else may have been faster.
        if let Some(owner) = self.known_owner()? {
            return Ok(owner);
        }
        let path = self.directory.join("owner");
        let owner = random::sixteen().map_err(|error| ControlError::home(&path, error))?;
        let text = random::hex(&owner) + "\n";
        self.replace("owner", text.as_bytes())?;
        Ok(Owner(owner))
    }

    /// Who this machine is, if that was drawn.
    fn known_owner(&self) -> Result<Option<Owner>, ControlError> {
        let path = self.directory.join("owner");
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let owner = random::parse(text.trim()).map(Owner);
                let owner = owner.filter(|owner| *owner != Owner::NOBODY);
                owner.map(Some).ok_or(ControlError::StateFile(path))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ControlError::home(&path, error)),
        }
    }

    /// What is remembered.
    ///
    /// # Errors
    /// The system's, or the file is of another version or damaged.
    pub fn registry(&self) -> Result<Registry, ControlError> {
        let path = self.directory.join("registry.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Registry::default()),
            Err(error) => return Err(ControlError::home(&path, error)),
        };
        let registry: Option<Registry> = serde_json::from_slice(&text).ok();
        let registry = registry.filter(|registry| registry.schema_version == SCHEMA_VERSION);
        registry.ok_or(ControlError::StateFile(path))
    }

    /// Changes what is remembered; durable when this returns.
    ///
    /// # Errors
    /// As [`Home::registry`].
    pub fn change(&self, change: impl FnOnce(&mut Registry)) -> Result<(), ControlError> {
        let _alone = self.lock()?;
        let mut registry = self.registry()?;
        change(&mut registry);
        let mut text = serde_json::to_vec_pretty(&registry).expect("named fields only");
        text.push(b'\n');
        self.replace("registry.json", &text)
    }

    /// [`Home::change`] on a thread of its own: file systems may take long to make something durable.
    pub(crate) fn change_aside(
        &self,
        io: &Io,
        change: impl FnOnce(&mut Registry) + Send + 'static,
    ) -> Flow<'static, Result<(), ControlError>> {
        let (home, io) = (self.clone(), io.clone());
        Box::pin(async move {
            let directory = home.directory.clone();
            let changed = aside(io, move || home.change(change)).await;
            changed.unwrap_or_else(|error| Err(ControlError::home(&directory, error)))
        })
    }

    /// Keeps other processes from changing files here for a moment.
    fn lock(&self) -> Result<File, ControlError> {
        let path = self.directory.join("state.lock");
        let lock = lock_file(&path).and_then(|file| file.lock().map(|()| file));
        lock.map_err(|error| ControlError::home(&path, error))
    }

    /// Replaces a file as a whole or not at all.
    fn replace(&self, name: &str, content: &[u8]) -> Result<(), ControlError> {
        let path = self.directory.join(name);
        replace_file(&path, content).map_err(|error| ControlError::home(&path, error))
    }
}

/// A lock that a file stands for; nothing if somebody else has it.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let lock = lock_file(path)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}
