//! Labels as they lie on a drive.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use varve_format::LABEL_BYTES;
use varve_pool::label::LABEL_OFFSETS;

/// Both copies of a drive's label, as they lie there.
pub fn label_bytes(path: &Path) -> Vec<u8> {
    let file = File::open(path).expect("a drive");
    let mut bytes = vec![0; 2 * LABEL_BYTES];
    let copies = bytes.chunks_exact_mut(LABEL_BYTES);
    for (copy, offset) in copies.zip(LABEL_OFFSETS) {
        file.read_exact_at(copy, offset).expect("a drive");
    }
    bytes
}
