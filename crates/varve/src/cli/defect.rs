//! A command that panics has met a defect of this program. It ends as failed, with a document if one is wanted.

use super::Exit;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};

/// What the first panic of this process said, and where: others follow from it.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Runs a command.
///
/// # Errors
/// If it panics, in this thread: what the first panic of all threads said.
pub(super) fn guard(command: impl FnOnce() -> Exit) -> Result<Exit, String> {
    let usual = take_hook();
    set_hook(Box::new(move |info| {
        usual(info);
        let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| describe(info));
    }));
    catch_unwind(AssertUnwindSafe(command)).map_err(|_| {
        let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.unwrap_or_else(|| "a panic of which nothing is known".to_owned())
    })
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let what = info.payload_as_str().unwrap_or("a panic without a text");
    match info.location() {
        Some(place) => format!("{what} ({}:{})", place.file(), place.line()),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's end is passed on; of what panics it is told what and where.
    #[test]
    fn panics_are_told() {
        assert_eq!(guard(|| Exit::Conflict), Ok(Exit::Conflict));
        let what = guard(|| panic!("one of {}", 3)).expect_err("it panics");
        assert!(what.starts_with("one of 3 ("), "{what}");
        assert!(what.contains(file!()), "{what}");
    }
}
