//! Controllers that are slower, narrower or more silent than ours.

use super::script::Script;
use crate::{Operation, Times};
use std::vec;
use std::vec::Vec;
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

/// What a controller takes in one command decides how many commands there are, not how much memory
/// they need before they are sent.
#[test]
fn a_discard_is_cut_as_it_goes_out() {
    let mut script = Script::new(Times::default());
    script.command_set.dmrsl = 1.into();
    script.until("ready", |script| script.host.is_ready());
    script.is_silent = true;
    let ranges = vec![(7, 1 << 31)];
    let discard = Operation::Deallocate { ranges };
    script.host.submit(script.now, 1, discard);
    script.until("commands", |script| !script.commands.is_empty());
    assert_eq!(script.commands.len(), 127, "as many as the queue takes");
    let sent = script.commands.iter().flat_map(|one| &one.ranges);
    let expected = (7..7 + 127 * 256).map(|lba| (lba, 1));
    assert!(sent.copied().eq(expected));
}

/// DMRL, DMRSL and DMSL bound the ranges of a command, the blocks of each, and those of all.
#[test]
fn a_discard_stays_within_what_a_controller_takes() {
    let mut script = Script::new(Times::default());
    script.command_set.dmrl = 3;
    script.command_set.dmrsl = 10.into();
    script.command_set.dmsl = 20.into();
    script.until("ready", |script| script.host.is_ready());
    let ranges = vec![(0, 12), (100, 0), (200, 1), (300, 2), (400, 35)];
    let discard = Operation::Deallocate { ranges };
    script.host.submit(script.now, 1, discard);
    script.until("the end", |script| !script.completions.is_empty());
    assert_eq!(script.completions[0].result, Ok(()));
    let sent = script.commands.iter();
    let sent: Vec<_> = sent.map(|one| one.ranges.clone()).collect();
    let expected = vec![
        vec![(0, 10), (10, 2), (200, 1)],
        vec![(300, 2), (400, 10), (410, 8)],
        vec![(418, 10), (428, 7)],
    ];
    assert_eq!(sent, expected);
}
