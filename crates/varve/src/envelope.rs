//! The frame around every JSON document that a command prints.

use serde::Serialize;
use std::sync::atomic::{AtomicU8, Ordering};

/// Version of the documents; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// Whose document this process leaves. Who makes one prints it; it is noted here, so that no command can leave
/// a second one because it forgot to say so.
static OWNER: AtomicU8 = AtomicU8::new(NOBODY);
/// None was made.
const NOBODY: u8 = 0;
/// The command's.
const COMMAND: u8 = 1;
/// That of a signal, which ends the process with it.
const SIGNAL: u8 = 2;

/// True if this process has made a document.
pub(crate) fn is_made() -> bool {
    OWNER.load(Ordering::Relaxed) != NOBODY
}

/// The document of a kind that a signal leaves, unless the command has made its own. The command makes none any more.
///
/// # Panics
/// As [`json`].
pub(crate) fn last_json(kind: &'static str, body: &impl Serialize) -> Option<String> {
    let claimed = OWNER.compare_exchange(NOBODY, SIGNAL, Ordering::Relaxed, Ordering::Relaxed);
    claimed.ok()?;
    let text = serde_json::to_string_pretty(&enveloped(kind, body));
    Some(text.expect("a document has named fields only") + "\n")
}

/// The command makes a document. Once a signal has made the last one it goes no further: the process is about to end.
fn claim() {
    let claimed = OWNER.compare_exchange(NOBODY, COMMAND, Ordering::Relaxed, Ordering::Relaxed);
    while claimed == Err(SIGNAL) {
        std::thread::park();
    }
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    schema_version: u32,
    kind: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// A document of a kind, with a line end.
///
/// # Panics
/// If `body` is not a structure with fields, or has maps whose keys are not text.
pub(crate) fn json(kind: &'static str, body: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(&framed(kind, body));
    text.expect("a document has named fields only") + "\n"
}

/// A document of a kind on one line, for those that read a stream of them.
///
/// # Panics
/// As [`json`].
pub(crate) fn json_line(kind: &'static str, body: &impl Serialize) -> String {
    let text = serde_json::to_string(&framed(kind, body));
    text.expect("a document has named fields only") + "\n"
}

fn framed<'a, T>(kind: &'static str, body: &'a T) -> Envelope<'a, T> {
    claim();
    enveloped(kind, body)
}

const fn enveloped<'a, T>(kind: &'static str, body: &'a T) -> Envelope<'a, T> {
    Envelope {
        schema_version: SCHEMA_VERSION,
        kind,
        body,
    }
}

#[derive(Serialize)]
struct Tagged<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// A document that tells its kind itself, with a line end.
///
/// # Panics
/// If `body` has maps whose keys are not text.
pub(crate) fn tagged(body: &impl Serialize) -> String {
    claim();
    let envelope = Tagged {
        schema_version: SCHEMA_VERSION,
        body,
    };
    let text = serde_json::to_string_pretty(&envelope);
    text.expect("a document has named fields only") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version and kind come first, the fields of the body lie beside them.
    #[test]
    fn the_frame_comes_first() {
        #[derive(Serialize)]
        struct Body {
            seeds: u64,
        }
        assert_eq!(
            json("Sample", &Body { seeds: 3 }),
            "{\n  \"schema_version\": 1,\n  \"kind\": \"Sample\",\n  \"seeds\": 3\n}\n"
        );
    }
}
