//! Controllers that are slower, narrower or more silent than ours.

use super::script::Script;
use crate::Times;
use varve_units::Nanos;

/// A controller has no keep alive before it is ready, and some have none at all.
#[test]
fn keep_alive_begins_with_a_controller_that_has_it() {
    for kas in [0, 10] {
        let mut script = Script::new(Times::default());
        script.controller.kas = kas.into();
        let ready_at = script.now + Nanos::from_secs(20);
        script.ready_at = ready_at;
        script.until("ready", |script| script.host.is_ready());
        assert!(script.keep_alives.is_empty(), "before it is ready");
        let end = ready_at + Nanos::from_secs(20);
        script.until("some time", |script| script.now >= end);
        let count = script.keep_alives.len();
        // Half of 5 s apart.
        let expected = if kas == 0 { 0..=0 } else { 7..=8 };
        assert!(expected.contains(&count), "KAS {kas}: {count}");
    }
}
