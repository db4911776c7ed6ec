//! Small files that are replaced as a whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces a file as a whole or not at all; nobody but its owner reads it. Durable when this returns.
///
/// It waits for the file system, so who serves hosts does it [aside](crate::aside()). Two at once on one path are the
/// caller's to prevent.
///
/// # Errors
/// The system's; the file is then as it was, or, where only its directory could not be made durable, the new one.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = OsString::from(path);
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let name = format!("varve-replace-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("kept.json");
        replace_file(&path, b"a long first text").unwrap();
        replace_file(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // No draft can be written.
        fs::create_dir(directory.join("kept.json.new")).unwrap();
        replace_file(&path, b"third").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        fs::remove_dir_all(&directory).unwrap();
    }
}
