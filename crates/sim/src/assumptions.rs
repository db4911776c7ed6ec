//! What the engine assumes of media, and what of it the simulator breaks: one list, from which `docs/format.md` has its own.
//!
//! What an assumption does not promise is a fault here. Each says under which names a campaign counts it, and a campaign
//! that never saw one of them fails; each fault that is injected belongs to one.
//!
//! **Not here**: how faults work (`drive`, `cache`), where they may strike (`atlas`).

use std::fmt::Write as _;

/// How the simulator does to a drive what an assumption leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drawn {
    /// Whenever the power fails, write by write and block by block (`cache`).
    WithPower,
    /// Counted under these names.
    As(&'static [&'static str]),
    /// It does not: nothing above a drive could make it good.
    Never,
}

/// One assumption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assumption {
    /// What it is called.
    pub title: &'static str,
    /// What is assumed, in a few sentences.
    pub text: &'static str,
    /// What the simulator makes of it.
    pub drawn: Drawn,
}

/// All of them, in the order of their numbers, which count from one.
pub const ASSUMPTIONS: [Assumption; 13] = [
    Assumption {
        title: "Sector atomicity",
        text: "A block of the drive (512 bytes or 4 KiB: the larger one of the logical and the physical sector \
               that it reports) is written whole or not at all when power fails, and what lies outside of a \
               write stays as it was. Of a write that covers several, any subset may be old and the rest new: a \
               4 KiB write on a 512-byte drive can tear.",
        drawn: Drawn::WithPower,
    },
    Assumption {
        title: "No order",
        text: "Between two flushes, writes that have not been flushed survive a power failure in any \
               combination, whatever the order in which they were submitted or completed.",
        drawn: Drawn::WithPower,
    },
    Assumption {
        title: "Completion is not durability",
        text: "A completed write can be lost with the power until a later flush has completed, unless the drive \
               says that it has no volatile cache.",
        drawn: Drawn::WithPower,
    },
    Assumption {
        title: "Flush",
        text: "When a flush completes, every write that completed before the flush was submitted is durable. A \
               write still in flight at that moment may or may not be.",
        drawn: Drawn::WithPower,
    },
    Assumption {
        title: "FUA",
        text: "The seam has no such flag. Forced unit access is a write followed by a flush, and on a drive \
               without a volatile cache just a write.",
        drawn: Drawn::As(&["host_write_fua"]),
    },
    Assumption {
        title: "Power-loss protection, known or not",
        text: "Only a drive known to be protected counts as one without a volatile cache; unknown means \
               unprotected. If the drive's claim is false, acknowledged and flushed data can be lost; nothing \
               above can make that good.",
        drawn: Drawn::Never,
    },
    Assumption {
        title: "Overlap",
        text: "Two writes of one range in flight at the same time have no defined order, not even per sector.",
        drawn: Drawn::WithPower,
    },
    Assumption {
        title: "Bit rot",
        text: "A read may succeed and return bytes that were never written.",
        drawn: Drawn::As(&["bit_rot"]),
    },
    Assumption {
        title: "Lost writes",
        text: "A write may complete and leave the old content, which is valid in itself but stale.",
        drawn: Drawn::As(&["lost_write"]),
    },
    Assumption {
        title: "Misdirection",
        text: "A write or a read may go to another place: the target keeps its old content, the other place \
               holds a valid block that is not its own.",
        drawn: Drawn::As(&[
            "misdirected_read",
            "misdirected_reads_lasting",
            "misdirected_write",
        ]),
    },
    Assumption {
        title: "Latent errors",
        text: "A read or write may fail with a media error, for this range and for good or until it is \
               rewritten; ranges beside it are unaffected. A write that failed, for whatever reason the drive \
               gives (media, time, space, read-only, gone), may have been stored all the same: none of it, any \
               of its logical blocks, or all.",
        drawn: Drawn::As(&[
            "bad_range",
            "bad_range_read",
            "bad_range_write",
            "media_error",
            "refused_stripe",
            "refused_write",
            "write_error",
        ]),
    },
    Assumption {
        title: "Drives leave",
        text: "A drive may stop answering for good, answer late (all commands, or a single one long after those \
               around it), turn read-only, fail flushes and answer the rest, or run out of space beneath a \
               sparse file, at any time. It may return with content that is old as a whole. \
               All drives of a tier may do so together (a shelf, a network), and return one after the other.",
        drawn: Drawn::As(&[
            "came_back",
            "flush_error",
            "gone",
            "hung_leaf_reads",
            "hung_reads",
            "lost_with_power",
            "no_space",
            "outage",
            "put_back",
            "read_only",
            "refused_flush",
            "slow",
            "slow_reads",
        ]),
    },
    Assumption {
        title: "Discard is a hint",
        text: "A discarded range may read as anything until it is rewritten.",
        drawn: Drawn::As(&["discarded_to_noise"]),
    },
];

impl Drawn {
    /// What readers are told of it.
    fn told(self) -> String {
        match self {
            Self::WithPower => "Drawn whenever the power fails.".to_owned(),
            Self::As(names) => {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("Counted as {}.", names.join(", "))
            }
            Self::Never => "Not drawn.".to_owned(),
        }
    }
}

/// The list as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = String::new();
    for (index, one) in ASSUMPTIONS.iter().enumerate() {
        let Assumption {
            title,
            text: of,
            drawn,
        } = one;
        let told = drawn.told();
        let number = index + 1;
        writeln!(text, "{number}. **{title}.** {of} *{told}*").expect("memory takes it");
    }
    text
}
