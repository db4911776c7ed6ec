//! Controllers that are slower, narrower or more silent than ours.

use super::net::gather;
use super::script::Script;
use crate::{Event, Failure, Operation, QUIET_MARGIN, Times};
use std::vec;
use std::vec::Vec;
use varve_units::Nanos;

fn ready(times: Times) -> Script {
    let mut script = Script::new(times);
    script.until("ready", |script| script.host.is_ready());
    script
}

fn write() -> Operation {
    Operation::Write {
        lba: 0,
        data: gather(1, 0, 1),
        fua: true,
    }
}

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

/// A command that is never answered in time ends at last, and not while it may still land.
#[test]
fn a_command_that_is_never_answered_ends() {
    let times = Times {
        command: Nanos::from_secs(3),
        ..Times::default()
    };
    let mut script = ready(times);
    script.is_silent = true;
    script.is_deaf = true;
    script.host.submit(script.now, 1, write());
    script.until("the end", |script| !script.completions.is_empty());
    let done = script.completions.remove(0);
    assert_eq!(done.result, Err(Failure::Unanswered));
    // Once, and as often again as Linux tries.
    assert_eq!(script.commands.len(), 1 + 5);
    let last = script.commands.last().expect("just counted").at;
    let quiet = times.keep_alive + times.keep_alive + QUIET_MARGIN;
    assert!(script.now.since(last) >= quiet, "{}", script.now);
    // The others have theirs.
    (script.is_silent, script.is_deaf) = (false, false);
    script.host.submit(script.now, 2, write());
    script.until("another one", |script| !script.completions.is_empty());
    assert_eq!(script.completions[0].result, Ok(()));
}

/// Attempts to connect are not sendings: what was in hand once waits as long as the target is away.
#[test]
fn a_long_absence_is_one_loss() {
    let times = Times {
        command: Nanos::from_secs(3),
        ..Times::default()
    };
    let mut script = ready(times);
    script.is_silent = true;
    script.host.submit(script.now, 1, write());
    let lost = |event: &&Event| matches!(event, Event::Lost { .. });
    script.until("a loss", |script| {
        script.events.iter().filter(lost).count() > 0
    });
    (script.is_silent, script.is_down) = (false, true);
    script.until("attempts", |script| {
        script.events.iter().filter(lost).count() > 30
    });
    script.is_down = false;
    script.until("the end", |script| !script.completions.is_empty());
    assert_eq!(script.completions[0].result, Ok(()));
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
