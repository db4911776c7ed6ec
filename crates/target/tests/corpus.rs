//! Replays the corpora of `fuzz/`: what fuzzing started from and what it found.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/fuzz_targets/drive/mod.rs"]
mod drive;

/// Runs every file of a corpus, also cut short at each of its first bytes.
fn replay(name: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(corpus.join(name)).expect("a corpus");
    let mut count = 0;
    for file in files {
        let path = file.expect("an entry").path();
        let bytes = fs::read(&path).expect("a readable file");
        println!("{}", path.display());
        run(&bytes);
        for end in 0..bytes.len().min(300) {
            run(&bytes[..end]);
        }
        count += 1;
    }
    assert!(count >= 5, "{count} files in {name}");
}

#[test]
fn host_streams() {
    replay("host_stream", drive::host_stream);
}

#[test]
fn pdu_decoders() {
    replay("pdu_decoder", drive::pdu_decoder);
}
