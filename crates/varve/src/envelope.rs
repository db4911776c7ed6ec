//! The frame around every JSON document that a command prints.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the documents; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// True once a document was made. Who makes one prints it; it is noted here, so that no command can leave
/// a second one because it forgot to say so.
static IS_MADE: AtomicBool = AtomicBool::new(false);

/// True if this process has made a document.
pub(crate) fn is_made() -> bool {
    IS_MADE.load(Ordering::Relaxed)
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
    IS_MADE.store(true, Ordering::Relaxed);
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
    IS_MADE.store(true, Ordering::Relaxed);
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
