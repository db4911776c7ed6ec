//! Replays the corpus of `fuzz/` that is about structures on media.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/fuzz_targets/media/mod.rs"]
mod media;

/// Every file of it, also cut short at each of its first bytes.
#[test]
fn structures() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/media_structures");
    let mut count = 0;
    for file in fs::read_dir(corpus).expect("a corpus") {
        let path = file.expect("an entry").path();
        let bytes = fs::read(&path).expect("a readable file");
        println!("{}", path.display());
        media::structures(&bytes);
        for end in 0..bytes.len().min(300) {
            media::structures(&bytes[..end]);
        }
        count += 1;
    }
    assert!(count >= 13, "{count} files");
}
