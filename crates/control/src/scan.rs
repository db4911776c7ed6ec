//! What the labels at some paths say, without taking or changing anything.
//!
//! A drive that somebody put to another use has no label here, whatever a copy says that survived.
//!
//! Right beside a daemon that has the drives open: a label that is being written is of no use for a
//! moment, and its other copy stands.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use varve_format::{LABEL_BYTES, Label};
use varve_hostio::content;
use varve_pool::label::{LABEL_OFFSETS, PoolId, is_other_use};

/// `O_NONBLOCK`: a look must not wait for a device, or for whoever writes to a named pipe.
const NONBLOCK: i32 = 0o4000;

/// What was found at a path.
#[derive(Debug)]
pub struct Scan {
    /// Where.
    pub path: PathBuf,
    /// Its size, and its newest label if it has one; else why it could not be looked at.
    pub found: io::Result<(u64, Option<Label>)>,
    /// What became of it, if it was a drive of a pool and somebody put it to another use.
    pub other_use: Option<OtherUse>,
    /// Which file or device it is, by whatever path.
    identity: Option<Identity>,
}

/// What became of a drive of a pool.
#[derive(Debug)]
pub struct OtherUse {
    /// What it was: the newest of its labels that is left.
    pub former: Label,
    /// What it holds now, as far as that is known.
    pub holds: String,
}

/// What tells a file or device from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Identity {
    Device(u64),
    File(u64, u64),
}

impl Scan {
    /// Of a path that could not be looked at.
    pub(crate) fn failed(path: PathBuf, why: io::Error) -> Self {
        Self {
            path,
            found: Err(why),
            other_use: None,
            identity: None,
        }
    }

    /// The label, if there is one.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        self.found.as_ref().ok()?.1.as_ref()
    }

    /// True if both lead to the same file or device.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.identity.is_some() && self.identity == other.identity
    }

    /// Size in bytes, if it could be looked at.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.found.as_ref().ok().map(|(bytes, _)| *bytes)
    }
}

/// Looks at a path.
#[must_use]
pub fn scan(path: &Path) -> Scan {
    let (mut identity, mut other_use) = (None, None);
    let found = open(path).and_then(|file| {
        identity = Some(identity_of(&file)?);
        let bytes = (&file).seek(SeekFrom::End(0))?;
        let copies = read_copies(&file)?;
        let labels = copies.iter().filter_map(|(_, label)| label.clone());
        let mut newest = labels.max_by_key(|label| (label.generation, label.copy_sequence));
        if let Some(former) = newest.take_if(|newest| is_taken(&copies, newest)) {
            let holds = holds(&file, bytes)?;
            other_use = Some(OtherUse { former, holds });
        }
        Ok((bytes, newest))
    });
    let path = path.to_owned();
    Scan {
        path,
        found,
        other_use,
        identity,
    }
}

/// True if somebody else put something where a copy of this label was.
fn is_taken(copies: &[(Vec<u8>, Option<Label>)], label: &Label) -> bool {
    let mut others = copies.iter().filter(|(_, label)| label.is_none());
    others.any(|(bytes, _)| is_other_use(bytes, PoolId(label.pool)))
}

/// What a drive holds beside what is left of its label.
fn holds(file: &File, bytes: u64) -> io::Result<String> {
    let found = content(file, bytes, &[])?;
    let names: Vec<_> = found.iter().map(ToString::to_string).collect();
    Ok(names.join(", "))
}

fn identity_of(file: &File) -> io::Result<Identity> {
    let meta = file.metadata()?;
    Ok(match meta.file_type().is_block_device() {
        true => Identity::Device(meta.rdev()),
        false => Identity::File(meta.dev(), meta.ino()),
    })
}

/// Scans of different drives, and the paths of those that lead to a drive which an earlier one has led to, with that
/// one's.
pub(crate) fn tell_apart(all: Vec<Scan>) -> (Vec<Scan>, Vec<(PathBuf, PathBuf)>) {
    let (mut scans, mut again): (Vec<Scan>, _) = (Vec::new(), Vec::new());
    for one in all {
        let mut same = scans
            .iter()
            .filter(|other| one.identity.is_some() && one.identity == other.identity);
        match same.next() {
            Some(first) => again.push((one.path, first.path.clone())),
            None => scans.push(one),
        }
    }
    (scans, again)
}

/// Opens for a look.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        Ok(file)
    } else {
        let what = "neither a regular file nor a block device";
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }
}

/// Both copies of the label; a copy that does not pass its checks is none.
pub(crate) fn copies(file: &File) -> io::Result<Vec<Option<Label>>> {
    let copies = read_copies(file)?.into_iter();
    Ok(copies.map(|(_, label)| label).collect())
}

/// What lies where the copies of the label go, and the labels there; nothing behind the end.
fn read_copies(file: &File) -> io::Result<Vec<(Vec<u8>, Option<Label>)>> {
    let read = |offset| {
        let mut bytes = vec![0; LABEL_BYTES];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {
                let label = Label::decode(&bytes).ok();
                Ok((bytes, label))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok((Vec::new(), None)),
            Err(error) => Err(error),
        }
    };
    LABEL_OFFSETS.into_iter().map(read).collect()
}

/// The newest of some labels of one pool.
pub(crate) fn newest<'a>(labels: impl Iterator<Item = &'a Label>) -> Option<&'a Label> {
    labels.max_by_key(|label| (label.generation, label.heartbeat))
}
