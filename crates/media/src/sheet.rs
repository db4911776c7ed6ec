//! A drive's numbers, each with its source.
//!
//! One TOML file per drive in `crates/media/drives`; they are part of the binary and parsed when
//! asked for. A source begins with how much it is worth: *read* at the place named, *second-hand*,
//! *computed* or *fitted* here (to what), *from memory* (unverified), *arbitrary*.

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

/// The drives that come with the program: name and file.
const DRIVES: [(&str, &str); 4] = [
    ("slc-p5810", include_str!("../drives/slc-p5810.toml")),
    ("tlc-p5520", include_str!("../drives/tlc-p5520.toml")),
    ("qlc-p5316", include_str!("../drives/qlc-p5316.toml")),
    ("qlc-p5336", include_str!("../drives/qlc-p5336.toml")),
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
                write!(f, "no drive «{name}»; there are")?;
                names().try_for_each(|name| write!(f, " {name}"))
            }
            Self::Malformed { what } => write!(f, "not a drive's sheet: {}", what.trim_end()),
        }
    }
}

impl core::error::Error for SheetError {}

/// Names of the drives that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    DRIVES.iter().map(|(name, _)| *name)
}

impl Sheet {
    /// A drive that comes with the program.
    ///
    /// # Errors
    /// If none has that name.
    pub fn named(name: &str) -> Result<Self, SheetError> {
        let found = DRIVES.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| SheetError::Unknown(name.to_string()))?;
        Self::parse(text)
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
