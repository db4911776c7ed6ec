//! Sheets of drives in place and of disks, and of any kind.

use crate::sheet::{Capacity, Number, Published, Sheet, SheetError};
use crate::zoned_sheet::ZonedSheet;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use serde::Deserialize;

/// All numbers of a drive that writes in place, without garbage collection.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InPlaceSheet {
    /// What the drive is called.
    pub name: String,
    /// What it can hold.
    pub capacity: Capacity,
    /// What its controller and its link to the host can do.
    pub controller: InPlaceController,
    /// How fast its media are.
    pub in_place: InPlace,
    /// What its vendor, or a document, says it does.
    pub published: Published,
}

/// What such a drive's controller and its link to the host can do.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InPlaceController {
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
}

/// How fast such a drive's media are.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InPlace {
    /// Banks that work beside one another.
    pub banks: Number<u32>,
    /// Reading or writing 4 KiB in a bank.
    pub access_ns: Number<u64>,
    /// Channels between controller and banks.
    pub channels: Number<u32>,
    /// Bytes a second of a channel.
    pub channel_bytes: Number<u64>,
}

/// All numbers of a disk.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSheet {
    /// What the drive is called.
    pub name: String,
    /// What it can hold.
    pub capacity: Capacity,
    /// How fast it is.
    pub disk: Disk,
    /// What its vendor, or a document, says it does.
    pub published: Published,
}

/// How fast a disk is.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Shortest seek.
    pub seek_least_ns: Number<u64>,
    /// How much longer the longest seek is.
    pub seek_more_ns: Number<u64>,
    /// One rotation.
    pub rotation_ns: Number<u64>,
    /// What a command costs that does not follow the one before.
    pub overhead_ns: Number<u64>,
    /// Bytes a second under the head.
    pub bytes_per_s: Number<u64>,
    /// Writes the cache holds.
    pub cache_writes: Number<u32>,
}

/// A sheet of any kind.
#[derive(Clone, PartialEq, Debug)]
pub enum AnySheet {
    /// Flash behind an internal FTL.
    Flash(Box<Sheet>),
    /// Written in place.
    InPlace(InPlaceSheet),
    /// Rotating.
    Disk(DiskSheet),
    /// Flash in zones that hosts write in order.
    Zoned(Box<ZonedSheet>),
}

/// How the text of a sheet is read.
type Parse = fn(&str) -> Result<AnySheet, toml::de::Error>;

/// The drives that come with the program and have no page map: name, file, kind.
const DRIVES: [(&str, &str, Parse); 4] = [
    ("slc-002", include_str!("../drives/slc-002.toml"), in_place),
    (
        "optane-p5800x",
        include_str!("../drives/optane-p5800x.toml"),
        in_place,
    ),
    ("hdd-002", include_str!("../drives/hdd-002.toml"), disk),
    ("zns-zn540", include_str!("../drives/zns-zn540.toml"), zoned),
];

fn in_place(text: &str) -> Result<AnySheet, toml::de::Error> {
    toml::from_str(text).map(AnySheet::InPlace)
}

fn disk(text: &str) -> Result<AnySheet, toml::de::Error> {
    toml::from_str(text).map(AnySheet::Disk)
}

fn zoned(text: &str) -> Result<AnySheet, toml::de::Error> {
    toml::from_str(text).map(|sheet| AnySheet::Zoned(Box::new(sheet)))
}

/// Names of the drives of all kinds that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    let others = DRIVES.iter().map(|(name, ..)| *name);
    others.chain(crate::sheet::names())
}

impl AnySheet {
    /// A drive that comes with the program.
    ///
    /// # Errors
    /// If none has that name.
    pub fn named(name: &str) -> Result<Self, SheetError> {
        let Some((_, text, parse)) = DRIVES.iter().find(|(known, ..)| *known == name) else {
            return Sheet::named(name).map(|sheet| Self::Flash(Box::new(sheet)));
        };
        parse(text).map_err(|error| SheetError::Malformed {
            what: error.to_string(),
        })
    }

    /// What the drive is called.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Flash(sheet) => &sheet.name,
            Self::InPlace(sheet) => &sheet.name,
            Self::Disk(sheet) => &sheet.name,
            Self::Zoned(sheet) => &sheet.name,
        }
    }

    /// What it can hold.
    #[must_use]
    pub const fn capacity(&self) -> &Capacity {
        match self {
            Self::Flash(sheet) => &sheet.capacity,
            Self::InPlace(sheet) => &sheet.capacity,
            Self::Disk(sheet) => &sheet.capacity,
            Self::Zoned(sheet) => &sheet.capacity,
        }
    }

    /// What its vendor, or a document, says it does.
    #[must_use]
    pub const fn published(&self) -> &Published {
        match self {
            Self::Flash(sheet) => &sheet.published,
            Self::InPlace(sheet) => &sheet.published,
            Self::Disk(sheet) => &sheet.published,
            Self::Zoned(sheet) => &sheet.published,
        }
    }
}
