//! A drive's numbers, each with its source.
//!
//! One TOML file per drive in `crates/media/drives`; they are part of the binary and parsed when
//! asked for. A source begins with how much it is worth: *read* at the place named, *second-hand*,
//! *computed* or *fitted* here (to what), *from memory* (unverified), *arbitrary*.

use crate::placement::{Isolation, Placement};
use alloc::string::{String, ToString};
use core::fmt;
use serde::Deserialize;

/// A number and where it comes from.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number<T> {
    /// The number; its unit is the last part of its name.
    pub value: T,
    /// Where it comes from.
    pub source: String,
}

/// All numbers of a drive.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// What the drive is called.
    pub name: String,
    /// What it can hold.
    pub capacity: Capacity,
    /// How its flash is managed.
    pub flash: Flash,
    /// What its controller and its link to the host can do.
    pub controller: Controller,
    /// How fast its flash is.
    pub nand: Nand,
    /// Its placement handles, if it has any.
    pub placement: Option<PlacementOf>,
    /// What its vendor, or a document, says it does.
    pub published: Published,
}

/// What a drive can hold.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Bytes hosts can address.
    pub user_bytes: Number<u64>,
}

/// How a drive's flash is managed.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Indirection unit.
    pub iu_bytes: Number<u32>,
    /// One flash block of every plane of every die.
    pub erase_unit_bytes: Number<u64>,
    /// How many times the user data fit into what the drive has beneath its parity.
    pub spare: Number<f64>,
    /// IUs written in part that can wait for their rest.
    pub merge_slots: Number<u32>,
    /// True if what waits survives the loss of power.
    pub power_loss_protected: Number<bool>,
}

/// What a drive's controller and its link to the host can do.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Bytes a second to the host.
    pub link_read_bytes: Number<u64>,
    /// Bytes a second from the host.
    pub link_write_bytes: Number<u64>,
    /// Commands a second, one after another.
    pub read_commands: Number<u64>,
    /// Commands a second, one after another.
    pub write_commands: Number<u64>,
    /// Firmware's part of a read's latency.
    pub read_ns: Number<u64>,
    /// Firmware's part of a write's latency.
    pub write_ns: Number<u64>,
    /// Data that are on their way to flash.
    pub buffer_bytes: Number<u64>,
}

/// How fast a drive's flash is.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nand {
    /// Dies.
    pub dies: Number<u32>,
    /// Planes of a die; they work together.
    pub planes: Number<u32>,
    /// Bytes of a flash page.
    pub page_bytes: Number<u32>,
    /// Flash pages of a plane that are programmed at once, one for each bit of a cell.
    pub pages_at_once: Number<u32>,
    /// Sensing one flash page.
    pub read_ns: Number<u64>,
    /// Programming `pages_at_once` in all planes of a die.
    pub program_ns: Number<u64>,
    /// Erasing a flash block in all planes of a die.
    pub erase_ns: Number<u64>,
    /// Dies that may program at once: the limit of power.
    pub programs_max: Number<u32>,
    /// Programs for each one that is parity; 0 without parity.
    pub programs_per_parity: Number<u32>,
    /// Interrupting a program or an erase, and going on with it, each.
    pub suspend_ns: Number<u64>,
    /// How often one program or erase may be interrupted.
    pub suspends_max: Number<u32>,
    /// Channels between controller and dies.
    pub channels: Number<u32>,
    /// Bytes a second of a channel.
    pub channel_bytes: Number<u64>,
}

/// Placement handles of a drive.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementOf {
    /// Handles.
    pub handles: Number<u8>,
    /// True if what is moved stays with its handle.
    pub persistently_isolated: Number<bool>,
}

/// What a drive is said to do.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Commands in flight for which these figures hold, at least.
    pub depth: Number<u32>,
    /// Bytes a second.
    pub sequential_read_bytes: Number<u64>,
    /// Bytes a second.
    pub sequential_write_bytes: Number<u64>,
    /// 4 KiB reads a second.
    pub random_reads: Number<u64>,
    /// Writes a second, in steady state; none of drives that are written in order.
    pub random_writes: Option<Number<u64>>,
    /// Size of those.
    pub random_write_bytes: Option<Number<u64>>,
    /// 4 KiB appends a second, of zoned drives.
    pub appends: Option<Number<u64>>,
}

/// The drives that come with the program: name and file.
const DRIVES: [(&str, &str); 8] = [
    ("mlc-002", include_str!("../drives/mlc-002.toml")),
    ("tlc-002", include_str!("../drives/tlc-002.toml")),
    ("qlc-002", include_str!("../drives/qlc-002.toml")),
    ("slc-p5810", include_str!("../drives/slc-p5810.toml")),
    ("tlc-p5520", include_str!("../drives/tlc-p5520.toml")),
    ("qlc-p5316", include_str!("../drives/qlc-p5316.toml")),
    ("qlc-p5336", include_str!("../drives/qlc-p5336.toml")),
    ("fdp-pm9d3a", include_str!("../drives/fdp-pm9d3a.toml")),
];

/// Why there is no sheet.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SheetError {
    /// No drive of that name.
    Unknown(String),
    /// Not a sheet.
    Malformed {
        /// What is wrong, and in which line.
        what: String,
    },
}

impl fmt::Display for SheetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "no drive is called «{name}»")
            }
            Self::Malformed { what } => write!(f, "not a drive's sheet: {}", what.trim_end()),
        }
    }
}

impl core::error::Error for SheetError {}

/// Names of the flash drives that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    DRIVES.iter().map(|(name, _)| *name)
}

impl Sheet {
    /// A flash drive that comes with the program.
    ///
    /// # Errors
    /// If none has that name.
    pub fn named(name: &str) -> Result<Self, SheetError> {
        let found = DRIVES.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| SheetError::Unknown(name.to_string()))?;
        Self::parse(text)
    }

    /// Its placement handles.
    #[must_use]
    pub fn placement(&self) -> Placement {
        let Some(placement) = &self.placement else {
            return Placement::NONE;
        };
        Placement {
            handles: placement.handles.value,
            isolation: if placement.persistently_isolated.value {
                Isolation::Persistently
            } else {
                Isolation::Initially
            },
        }
    }

    /// The drive that a TOML text describes.
    ///
    /// # Errors
    /// If it does not.
    pub fn parse(text: &str) -> Result<Self, SheetError> {
        toml::from_str(text).map_err(|error| SheetError::Malformed {
            what: error.to_string(),
        })
    }
}
