//! How series are told apart: a system and a policy look the same in every picture.
//!
//! A look is a colour, and with it a marker and the dashes of a line, so that none of them is the only one
//! to tell; it is filled or open. No two systems of one picture have a colour in common, nor have two policies.

use super::plot::put;

/// How a series looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// Place in `TONES`.
    tone: usize,
    is_open: bool,
}

/// Colour, marker and dashes that belong together.
struct Tone {
    /// Of text if none is said.
    colour: Option<&'static str>,
    /// Path around its middle.
    marker: &'static str,
    /// As SVG has it; none for a whole line.
    dashes: &'static str,
}

/// Colours are those of Okabe and Ito, told apart by all kinds of eyes, where they stand out from a white page
/// and a dark one; else darker ones of about their hue (see the test).
const TONES: [Tone; 9] = [
    Tone {
        colour: Some("#0072b2"),
        marker: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
        dashes: "",
    },
    Tone {
        colour: Some("#c67c00"),
        marker: "M-3.5-3.5h7v7h-7Z",
        dashes: "9 3",
    },
    Tone {
        colour: Some("#cc3311"),
        marker: "M0-5L4.5 3.5h-9Z",
        dashes: "3 3",
    },
    Tone {
        colour: Some("#009e73"),
        marker: "M0-5L5 0L0 5L-5 0Z",
        dashes: "9 3 2 3",
    },
    Tone {
        colour: Some("#c0609a"),
        marker: "M0 5L4.5-3.5h-9Z",
        dashes: "5 5",
    },
    Tone {
        colour: Some("#7f7f7f"),
        marker: "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
        dashes: "14 4",
    },
    Tone {
        colour: Some("#1b9ed8"),
        marker: "M-4.2-2.1l2.1-2.1l2.1 2.1l2.1-2.1l2.1 2.1l-2.1 2.1l2.1 2.1l-2.1 2.1l-2.1-2.1l-2.1 2.1\
                 l-2.1-2.1l2.1-2.1Z",
        dashes: "9 3 2 3 2 3",
    },
    Tone {
        colour: Some("#8f8000"),
        marker: "M-5-2h10v4h-10Z",
        dashes: "1 4",
    },
    Tone {
        colour: None,
        marker: "M0-5.5L1.5-1.5L5.5 0L1.5 1.5L0 5.5L-1.5 1.5L-5.5 0L-1.5-1.5Z",
        dashes: "14 4 2 4",
    },
];

const fn filled(tone: usize) -> Look {
    Look {
        tone,
        is_open: false,
    }
}

const fn open(tone: usize) -> Look {
    Look {
        tone,
        is_open: true,
    }
}

/// Systems and policies, by the names that users know.
const NAMED: [(&str, Look); 17] = [
    ("varve", filled(0)),
    ("csal-today", filled(1)),
    ("csal-paper", filled(2)),
    ("open-cas", filled(3)),
    ("dm-zoned", filled(4)),
    ("drop-in", filled(5)),
    ("hdd-array", filled(6)),
    ("raid-0", open(1)),
    ("raid-10", open(2)),
    ("raid-5", filled(7)),
    ("raid-6", filled(8)),
    ("greedy-1", open(5)),
    ("fifo-1", open(7)),
    ("greedy-2", open(6)),
    ("cost-benefit-2", open(3)),
    ("sepbit", open(4)),
    ("oracle", open(8)),
];
/// In this order to what has no name here, the tones of systems last.
const OTHERS: [usize; 9] = [7, 8, 6, 5, 4, 3, 0, 1, 2];

/// Series of one picture at most.
pub(super) const LOOKS_MAX: usize = TONES.len();

/// Looks of the series of one picture: by name, and in their order those that are no system or policy.
///
/// # Panics
/// If there are more than [`LOOKS_MAX`].
pub(super) fn looks<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<Look> {
    let known = |name: &str| NAMED.iter().find(|(known, _)| *known == name);
    let taken: Vec<usize> = names
        .clone()
        .filter_map(known)
        .map(|(_, look)| look.tone)
        .collect();
    let mut others = OTHERS.iter().filter(|tone| !taken.contains(tone));
    let look = |name| match known(name) {
        Some((_, look)) => *look,
        None => filled(*others.next().expect("a look for each series")),
    };
    names.map(look).collect()
}

impl Look {
    /// Begins what looks so; `</g>` ends it.
    pub(super) fn begin(self, svg: &mut String) {
        let open = if self.is_open { " open" } else { "" };
        put(svg, format_args!("<g class=\"look k{}{open}\">", self.tone));
    }

    /// A marker there.
    pub(super) fn mark(self, svg: &mut String, (x, y): (f64, f64)) {
        let marker = TONES[self.tone].marker;
        put(
            svg,
            format_args!(
                "<path class=\"mark\" transform=\"translate({x:.1} {y:.1})\" d=\"{marker}\"/>"
            ),
        );
    }
}

/// Rules of all looks.
pub(super) fn style() -> String {
    let mut style = ".plot .bar,.plot .mark{fill:currentColor;stroke:currentColor}\
        .plot .open .bar{fill-opacity:.3}.plot .open .mark{fill:none;stroke-width:1.5}\
        .plot .line{fill:none;stroke:currentColor;stroke-width:2}"
        .to_owned();
    for (at, tone) in TONES.iter().enumerate() {
        if let Some(colour) = tone.colour {
            put(&mut style, format_args!(".plot .k{at}{{color:{colour}}}"));
        }
        if !tone.dashes.is_empty() {
            let dashes = tone.dashes;
            put(
                &mut style,
                format_args!(".plot .k{at} .line{{stroke-dasharray:{dashes}}}"),
            );
        }
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::SystemName;
    use crate::waf::{POLICIES, PolicyName};

    /// Every one has a look of its own.
    #[test]
    fn systems_and_policies_all_have_looks_of_their_own() {
        let systems = SystemName::ALL.map(SystemName::name);
        let policies = POLICIES.map(PolicyName::name);
        for name in systems.iter().chain(&policies) {
            assert!(NAMED.iter().any(|(known, _)| known == name), "{name}");
        }
        for (at, (name, look)) in NAMED.iter().enumerate() {
            for (other, same) in &NAMED[at + 1..] {
                assert_ne!(look, same, "{name} and {other}");
            }
        }
    }

    /// What a picture beside it shows changes nothing, and what has no name takes no other's colour.
    #[test]
    fn a_look_is_that_of_the_name() {
        let of = |names: &[&'static str]| looks(names.iter().copied());
        let (one, other) = (of(&["drop-in", "varve"]), of(&["varve", "hdd-array"]));
        assert_eq!(one[1], other[0]);
        let mixed = of(&["formula", "greedy-1", "D"]);
        assert_eq!(mixed[1], open(5));
        let tones: Vec<usize> = mixed.iter().map(|look| look.tone).collect();
        assert!(tones[0] != tones[1] && tones[0] != tones[2] && tones[1] != tones[2]);
        let all: Vec<Look> = looks((0..LOOKS_MAX).map(|_| "?"));
        for (at, look) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(look));
        }
    }

    /// Three times as light as the page or as dark, as WCAG 2.1 (1.4.11) asks of what pictures are made of.
    #[test]
    fn colours_stand_out_from_light_and_dark_pages() {
        let light = |hex: &str| {
            let part = |at: usize| {
                let part = u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
                let part = f64::from(part) / 255.0;
                if part <= 0.03928 {
                    part / 12.92
                } else {
                    ((part + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        for colour in TONES.iter().filter_map(|tone| tone.colour) {
            for page in ["#ffffff", "#14171a"] {
                let (one, other) = (light(colour), light(page));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 3.0, "{colour} on {page}: {contrast}");
            }
        }
    }
}
