//! Where a drive is, or is to be.

use crate::size::{SizeError, parse_size};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A path, and the size of the sparse file to be made there, if one is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Sent")]
pub struct DrivePath {
    /// Where.
    pub path: PathBuf,
    /// A sparse file of so many bytes is to be made there.
    pub create_bytes: Option<u64>,
}

/// One as it comes over the socket, where no directory is the asker's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    path: PathBuf,
    create_bytes: Option<u64>,
}

impl TryFrom<Sent> for DrivePath {
    type Error = PathError;

    fn try_from(Sent { path, create_bytes }: Sent) -> Result<Self, PathError> {
        if path.is_relative() {
            return Err(PathError::Relative(path));
        }
        Ok(Self { path, create_bytes })
    }
}

/// Why a text names no drive.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PathError {
    /// There is no path.
    Empty,
    /// It cannot be remembered: it is no Unicode.
    NoText(PathBuf),
    /// It means something else in each directory.
    Relative(PathBuf),
    /// What stands behind the last colon is no size.
    Size(SizeError),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a drive is PATH, or PATH:SIZE for a new sparse file"),
            Self::NoText(path) => write!(
                f,
                "{}: a path with bytes that are no UTF-8 cannot be remembered",
                path.display()
            ),
            Self::Relative(path) => write!(f, "{}: a path begins with /", path.display()),
            Self::Size(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PathError {}

impl FromStr for DrivePath {
    type Err = PathError;

    /// `PATH`, or `PATH:SIZE` for a new sparse file. A path that exists is taken as it stands,
    /// colons and all.
    fn from_str(text: &str) -> Result<Self, PathError> {
        let plain = |path: &str| {
            let path = absolute(path);
            remembered(&path)?;
            Ok(Self {
                path,
                create_bytes: None,
            })
        };
        if text.is_empty() || text.starts_with(':') {
            return Err(PathError::Empty);
        }
        match text.rsplit_once(':') {
            Some((path, size)) if !Path::new(text).exists() && !size.contains('/') => {
                let bytes = parse_size(size).map_err(PathError::Size)?;
                Ok(Self {
                    create_bytes: Some(bytes),
                    ..plain(path)?
                })
            }
            _ => plain(text),
        }
    }
}

/// Checks that a path can be written down: what cannot be remembered is not made.
///
/// # Errors
/// [`PathError::NoText`].
pub(crate) fn remembered(path: &Path) -> Result<(), PathError> {
    let text = path.to_str().map(drop);
    text.ok_or_else(|| PathError::NoText(path.to_owned()))
}

/// A path that means the same in every directory; links stay, since they may name a device better
/// than its number does.
pub(crate) fn absolute(path: impl Into<PathBuf>) -> PathBuf {
    let path = path.into();
    std::path::absolute(&path).unwrap_or(path)
}

impl fmt::Display for DrivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_behind_the_last_colon_asks_for_a_file() {
        let drive: DrivePath = "/tmp/none-such:1g".parse().unwrap();
        assert_eq!(drive.path, PathBuf::from("/tmp/none-such"));
        assert_eq!(drive.create_bytes, Some(1 << 30));
        let drive: DrivePath = "/dev/disk/by-path/pci-0000:00/nvme".parse().unwrap();
        assert_eq!(drive.create_bytes, None);
        assert!("".parse::<DrivePath>().is_err());
        assert!(":1g".parse::<DrivePath>().is_err());
        assert!("/tmp/none-such:1x".parse::<DrivePath>().is_err());
        let relative: DrivePath = "a".parse().unwrap();
        assert!(relative.path.is_absolute());
    }
}
