//! Writer of the archive that a kernel takes as its first file system (cpio, format «newc»).
//!
//! Source: the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`. Owners are
//! root, times are zero, so that equal content gives equal archives.

use std::io::{self, Write};

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that is being written.
pub struct Archive<W> {
    out: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self { out, entries: 0 }
    }

    /// Adds an empty folder. Folders come before what is in them.
    ///
    /// # Errors
    /// If writing fails.
    pub fn folder(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, FOLDER, &[])
    }

    /// Adds a file that anybody may read and call.
    ///
    /// # Errors
    /// If writing fails, or `content` is longer than 4 GiB.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.entry(name, PROGRAM, content)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// If writing fails.
    pub fn link(&mut self, name: &str, target: &str) -> io::Result<()> {
        self.entry(name, LINK, target.as_bytes())
    }

    /// Ends the archive. Returns what it was written to.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(TRAILER, 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        assert!(!name.starts_with('/'), "names begin at the root: {name}");
        let len = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_len = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        self.entries += 1;
        // inode, mode, uid, gid, links, time, size, four device numbers, length of the name, check.
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        let mut head = MAGIC.to_owned();
        for field in fields {
            head += &format!("{field:08x}");
        }
        head += name;
        head.push('\0');
        self.padded(head.as_bytes())?;
        self.padded(content)
    }

    /// Writes bytes and zeroes up to a multiple of four.
    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let end = bytes.len().next_multiple_of(4);
        self.out.write_all(&[0; 3][..end - bytes.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_end_with_the_trailer() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("a").unwrap();
        archive.file("a/b", b"12345").unwrap();
        archive.link("c", "a/b").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches(MAGIC).count(), 4);
        let file = text.find("a/b\0").unwrap();
        // 110 bytes of header, 4 of name, padded to 116; then the content.
        assert_eq!(&text[file - 110..][116..121], "12345");
        assert_eq!(&text[file - 110 + 6 + 8..][..8], "000081ed");
        assert_eq!(&text[file - 110 + 6 + 6 * 8..][..8], "00000005");
        assert!(text.trim_end_matches('\0').ends_with(TRAILER));
    }
}
