//! Where a demonstration lives: a directory with files for drives, a pool on them, volumes.

use super::error::DemoError;
use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use varve_control::{
    CreatePool, CreateVolume, DrivePath, PlanView, PoolView, Protect, Reply, Request, local,
};

/// The pool.
pub(super) const POOL: &str = "demo";
/// Volumes: name, size, tenant.
pub(super) const VOLUMES: [(&str, u64, u32); 2] = [("vol1", 10 << 30, 1), ("vol2", 2 << 30, 2)];
/// Fast drives, and the size of each.
pub(super) const FAST: (usize, u64) = (2, 192 << 20);
/// Dense drives, and the size of each. Small: the self-test writes all of it several times over.
pub(super) const DENSE: (usize, u64) = (4, 320 << 20);
/// The dense drives' data sheet: QLC with an indirection unit of 64 KiB.
pub(super) const SHEET: &str = "qlc-p5316";
/// Share of the dense tier that is kept back, per cent.
const OVER_PROVISION: u32 = 28;

/// A directory with a demonstration in it. Removed when dropped, unless the user named it.
pub(super) struct Site {
    directory: PathBuf,
    is_temporary: bool,
}

impl Site {
    /// The directory that the user named, or a new temporary one. It is named from the root: what is remembered of
    /// it has to mean the same wherever the demonstration goes on.
    ///
    /// # Errors
    /// [`DemoError::Directory`].
    pub(super) fn open(named: Option<&Path>) -> Result<Self, DemoError> {
        let (directory, made) = match named {
            Some(named) => {
                let directory = std::path::absolute(named)
                    .map_err(|error| DemoError::Directory(named.to_owned(), error))?;
                let made = fs::create_dir_all(&directory);
                (directory, made)
            }
            None => {
                let name = format!("varve-demo-{}", std::process::id());
                let directory = std::env::temp_dir().join(name);
                // New, and nobody else's: others may write to the directory it lies in.
                let made = DirBuilder::new().mode(0o700).create(&directory);
                (directory, made)
            }
        };
        made.map_err(|error| DemoError::Directory(directory.clone(), error))?;
        Ok(Self {
            directory,
            is_temporary: named.is_none(),
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) const fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// The state directory of the control plane.
    pub(super) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// What the server says.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("serve.log")
    }

    /// What the server says when hosts can connect.
    pub(super) fn announcement(&self) -> PathBuf {
        self.directory.join("serving.json")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.directory.join("varve.toml")
    }

    /// Writes the server's configuration.
    ///
    /// # Errors
    /// [`DemoError::Directory`].
    pub(super) fn write_config(
        &self,
        listen: SocketAddr,
        discovery: SocketAddr,
    ) -> Result<(), DemoError> {
        let state = self.state();
        let text = format!(
            "# The demonstration's server; see `varve serve --help`.\n\
             state_dir = {}\n\n\
             [[listener]]\naddress = '{listen}'\n\n\
             [[listener]]\naddress = '{discovery}'\ndiscovery = true\n",
            // What JSON escapes TOML does too (TOML 1.0, String).
            serde_json::Value::from(state.display().to_string())
        );
        let path = self.config();
        fs::write(&path, text).map_err(|error| DemoError::Directory(path, error))
    }

    /// The pool and its volumes, made if they are not there. `None` if they were.
    ///
    /// # Errors
    /// [`DemoError::Control`].
    pub(super) fn make_pool(&self) -> Result<Option<PlanView>, DemoError> {
        if self.status().is_ok() {
            return Ok(None);
        }
        let create = Request::PoolCreate(CreatePool {
            pool: POOL.to_owned(),
            fast: self.drives("fast", FAST),
            dense: self.drives("dense", DENSE),
            protect: Some(Protect::Parity {
                data: DENSE.0 as u8 - 1,
            }),
            over_provision: Some(OVER_PROVISION),
            dense_model: Some(SHEET.to_owned()),
            overwrite: false,
            dry_run: false,
        });
        let Reply::PoolPlan(plan) = self.ask(create)? else {
            unreachable!("a pool that was made is told by its plan");
        };
        for (name, bytes, tenant) in VOLUMES {
            self.ask(Request::VolumeCreate(CreateVolume {
                pool: POOL.to_owned(),
                volume: name.to_owned(),
                bytes,
                tenant,
            }))?;
        }
        Ok(Some(plan))
    }

    fn drives(&self, role: &str, (count, bytes): (usize, u64)) -> Vec<DrivePath> {
        let drive = |number| DrivePath {
            path: self.directory.join(format!("{role}{number}.img")),
            create_bytes: Some(bytes),
        };
        (0..count).map(drive).collect()
    }

    /// Bytes that its drives take already.
    pub(super) fn taken_bytes(&self) -> u64 {
        let all = [self.drives("fast", FAST), self.drives("dense", DENSE)].concat();
        let taken =
            |drive: DrivePath| fs::metadata(drive.path).map_or(0, |meta| meta.blocks() * 512);
        all.into_iter().map(taken).sum()
    }

    /// How the pool fares.
    ///
    /// # Errors
    /// [`DemoError::Control`].
    pub(super) fn status(&self) -> Result<PoolView, DemoError> {
        let pool = POOL.to_owned();
        match self.ask(Request::PoolStatus { pool })? {
            Reply::PoolStatus(view) => Ok(view),
            _ => unreachable!("a pool is told by its view"),
        }
    }

    fn ask(&self, request: Request) -> Result<Reply, DemoError> {
        local::ask(&self.state(), request, |_| ()).map_err(DemoError::Control)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.is_temporary {
            // What cannot be removed is the system's to clean up, as everything temporary.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A demonstration that was begun in one directory goes on from any other.
    #[test]
    fn what_is_remembered_is_named_from_the_root() {
        let place = std::env::temp_dir().join(format!("varve-site-{}", std::process::id()));
        let here = std::env::current_dir().expect("a directory");
        let up = here.components().skip(1).map(|_| "..");
        let below = place.strip_prefix("/").expect("from the root");
        let relative = up.collect::<PathBuf>().join(below);
        assert!(relative.is_relative());
        let site = Site::open(Some(&relative)).expect("a directory");
        site.write_config(([127, 0, 0, 1], 0).into(), ([127, 0, 0, 1], 0).into())
            .expect("a configuration");
        let text = fs::read_to_string(place.join("varve.toml")).expect("a configuration");
        fs::remove_dir_all(place).expect("it was made");
        assert!(text.contains("state_dir = \"/"), "{text}");
        let drives = [site.drives("fast", FAST), site.drives("dense", DENSE)].concat();
        assert!(drives.iter().all(|drive| drive.path.is_absolute()));
    }
}
