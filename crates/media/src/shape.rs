//! The shape of a drive's flash, in counts.

use crate::buffer::SLOTS_MAX;
use crate::gc::{FREE_RESERVE, FREE_TARGET};
use crate::placement::{HANDLES_MAX, Placement};
use crate::sheet::Sheet;
use core::fmt;

/// Fewest IUs of an erase unit that a scaled drive has: below, what is open weighs too much.
const UNIT_IUS_MIN: u64 = 16;
/// Fewest erase units: those kept free, three open ones, a victim, and some to choose from.
const UNITS_MIN: u64 = 24;
/// Erase units beside those that the spare factor of a sheet counts.
const UNITS_BESIDE: u64 = FREE_TARGET as u64 + FREE_RESERVE as u64;
/// What of them holds no data on average, in quarters: the free ones, and the empty parts of the two
/// open ones and of the victim. Measured: with this the drive costs what the formula says.
const BESIDE_QUARTERS: u64 = 13;
/// Parts of one in which spare factors are computed.
const MILLION: u64 = 1_000_000;

/// The shape of a drive's flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes hosts can address.
    pub bytes: u64,
    /// Bytes of an IU: a power of two from 4096 to 65536.
    pub iu_bytes: u32,
    /// IUs hosts can address.
    pub ius: u32,
    /// Erase units.
    pub units: u32,
    /// IUs of an erase unit.
    pub unit_ius: u32,
    /// IUs written in part that can wait for their rest.
    pub merge_slots: u32,
    /// True if what waits survives the loss of power; a flush then programs nothing.
    pub is_protected: bool,
    /// Placement handles.
    pub placement: Placement,
}

/// Why a shape is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShapeError {
    /// The IU is no power of two from 4 to 64 KiB.
    Iu(u32),
    /// Too small for erase units of any use.
    TooSmall {
        /// Smallest possible drive, in bytes.
        bytes_min: u64,
    },
    /// More places than 32 bits can name.
    TooLarge {
        /// Largest possible drive, in bytes.
        bytes_max: u64,
    },
    /// Spare factors lie above 1 and not above 4, in millionths.
    Spare(u64),
    /// Slots are 1 to 256.
    Slots(u32),
    /// Handles are 1 to 128.
    Handles(u8),
    /// The spare does not hold so many open erase units.
    Open(u64),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iu(bytes) => write!(
                f,
                "an IU of {bytes} bytes is no power of two from 4096 to 65536"
            ),
            Self::TooSmall { bytes_min } => write!(f, "a drive of this kind has {bytes_min} bytes"),
            Self::TooLarge { bytes_max } => {
                write!(f, "a drive of this kind has at most {bytes_max} bytes")
            }
            Self::Spare(spare) => write!(f, "spare factor {spare} is not in 1000001..=4000000"),
            Self::Slots(slots) => write!(f, "{slots} slots are not in 1..={SLOTS_MAX}"),
            Self::Open(units) => write!(f, "no spare for {units} open erase units"),
            Self::Handles(handles) => write!(f, "{handles} handles are not in 1..={HANDLES_MAX}"),
        }
    }
}

impl core::error::Error for ShapeError {}

impl Shape {
    /// A drive of `bytes` with the IU, the ratios and the number of erase units of a sheet.
    ///
    /// Erase units grow and shrink with the drive; their number stays, and so does everything that
    /// depends on it. Small drives have fewer, because of the smallest erase unit.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn scaled(sheet: &Sheet, bytes: u64) -> Result<Self, ShapeError> {
        let flash = &sheet.flash;
        let units = sheet.capacity.user_bytes.value / flash.erase_unit_bytes.value.max(1);
        Self::new(
            bytes,
            flash.iu_bytes.value,
            units,
            millionths(flash.spare.value),
            flash.merge_slots.value,
            flash.power_loss_protected.value,
        )?
        .with_placement(sheet.placement())
    }

    /// The same drive with handles: what they keep open is taken from its spare.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn with_placement(self, placement: Placement) -> Result<Self, ShapeError> {
        if !(1..=HANDLES_MAX).contains(&placement.handles) {
            return Err(ShapeError::Handles(placement.handles));
        }
        // With all of them open, and those free below which a victim is looked for, one must still
        // be closed that has something to give.
        let slots = placement.slots() as u64;
        let elsewhere = slots + FREE_TARGET as u64 - 1;
        let closed = u64::from(self.units).saturating_sub(elsewhere);
        let has_room = closed * u64::from(self.unit_ius) > u64::from(self.ius);
        if placement.handles > 1 && !has_room {
            return Err(ShapeError::Open(slots));
        }
        Ok(Self { placement, ..self })
    }

    /// Bytes of the smallest drive of a sheet in which each die still has a row in every erase
    /// unit: the smallest that has the sheet's times.
    #[must_use]
    pub fn smallest(sheet: &Sheet) -> u64 {
        Self::bytes_of(sheet, Self::row_ius(sheet))
    }

    /// IUs of a row in each die: the smallest erase unit that has the sheet's times.
    #[must_use]
    pub fn row_ius(sheet: &Sheet) -> u64 {
        let nand = &sheet.nand;
        let per_parity = u64::from(nand.programs_per_parity.value);
        let dies = u64::from(nand.dies.value);
        let rows = if per_parity == 0 {
            dies
        } else {
            dies * per_parity / (per_parity + 1)
        };
        let row_bytes = u64::from(nand.planes.value)
            * u64::from(nand.page_bytes.value)
            * u64::from(nand.pages_at_once.value);
        rows * row_bytes / u64::from(sheet.flash.iu_bytes.value.max(1))
    }

    /// Bytes of a drive in the ratios of a sheet whose erase units are of so many IUs.
    #[must_use]
    pub fn bytes_of(sheet: &Sheet, unit_ius: u64) -> u64 {
        let flash = &sheet.flash;
        let user_units = sheet.capacity.user_bytes.value / flash.erase_unit_bytes.value.max(1);
        let spare = millionths(flash.spare.value).max(1);
        let units = (user_units * spare).div_ceil(MILLION) + UNITS_BESIDE;
        let iu = u64::from(flash.iu_bytes.value.max(1));
        let places = unit_ius * (4 * units - BESIDE_QUARTERS) / 4;
        places * MILLION / spare * iu
    }

    /// A drive of `bytes`, rounded up to whole IUs, whose user data would fill `user_units` erase
    /// units; `spare_millionths` is how many times the user data fit into its closed units.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn new(
        bytes: u64,
        iu_bytes: u32,
        user_units: u64,
        spare_millionths: u64,
        merge_slots: u32,
        is_protected: bool,
    ) -> Result<Self, ShapeError> {
        let kind = Kind::new(iu_bytes, spare_millionths, merge_slots, is_protected)?;
        let iu = u64::from(iu_bytes);
        let ius_min = UNITS_MIN * UNIT_IUS_MIN;
        let ius = bytes.div_ceil(iu);
        if ius < ius_min {
            let bytes_min = ius_min * iu;
            return Err(ShapeError::TooSmall { bytes_min });
        }
        let all = places(ius, spare_millionths);
        let user_units = user_units.clamp(UNITS_MIN, ius / UNIT_IUS_MIN);
        let closed = (user_units * spare_millionths).div_ceil(MILLION);
        let units = closed + UNITS_BESIDE;
        let unit_ius = (4 * all).div_ceil(4 * units - BESIDE_QUARTERS);
        kind.shape(ius, units, unit_ius)
    }

    /// A drive whose erase units have `unit_ius` IUs each, of which hosts can address as many as fill `user_units`: with
    /// so many beside them that the spare is at least `spare_millionths`.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn of_units(
        iu_bytes: u32,
        (user_units, unit_ius): (u64, u64),
        spare_millionths: u64,
        merge_slots: u32,
        is_protected: bool,
    ) -> Result<Self, ShapeError> {
        let kind = Kind::new(iu_bytes, spare_millionths, merge_slots, is_protected)?;
        if user_units.max(unit_ius) > u64::from(u32::MAX) {
            return Err(kind.too_large());
        }
        if user_units < UNITS_MIN || unit_ius < UNIT_IUS_MIN {
            let units = user_units.max(UNITS_MIN);
            let bytes_min = units * unit_ius.max(UNIT_IUS_MIN) * u64::from(iu_bytes);
            return Err(ShapeError::TooSmall { bytes_min });
        }
        let ius = user_units.saturating_mul(unit_ius);
        let all = places(ius, spare_millionths);
        let quarters = all
            .saturating_mul(4)
            .saturating_add(BESIDE_QUARTERS * unit_ius);
        let units = quarters.div_ceil(4 * unit_ius);
        kind.shape(ius, units, unit_ius)
    }

    /// Bytes of the whole flash by bytes hosts can address.
    #[must_use]
    pub fn spare(&self) -> f64 {
        let places = f64::from(self.units) * f64::from(self.unit_ius);
        places / f64::from(self.ius)
    }
}

/// What a shape is of apart from counts.
struct Kind {
    iu_bytes: u32,
    spare_millionths: u64,
    merge_slots: u32,
    is_protected: bool,
}

impl Kind {
    /// An error if no drive can be of this kind.
    fn new(
        iu_bytes: u32,
        spare_millionths: u64,
        merge_slots: u32,
        is_protected: bool,
    ) -> Result<Self, ShapeError> {
        if !iu_bytes.is_power_of_two() || !(4096..=65536).contains(&iu_bytes) {
            return Err(ShapeError::Iu(iu_bytes));
        }
        if !(MILLION + 1..=4 * MILLION).contains(&spare_millionths) {
            return Err(ShapeError::Spare(spare_millionths));
        }
        if !(1..=SLOTS_MAX).contains(&merge_slots) {
            return Err(ShapeError::Slots(merge_slots));
        }
        Ok(Self {
            iu_bytes,
            spare_millionths,
            merge_slots,
            is_protected,
        })
    }

    /// What is larger than any drive of this kind.
    fn too_large(&self) -> ShapeError {
        // Half of what 32 bits name leaves room for what the units beside add.
        let ius_max = u64::from(u32::MAX) / 2 * MILLION / self.spare_millionths;
        let bytes_max = ius_max * u64::from(self.iu_bytes);
        ShapeError::TooLarge { bytes_max }
    }

    /// The drive of this kind of which hosts can address `ius` IUs, in `units` erase units of `unit_ius`.
    fn shape(&self, ius: u64, units: u64, unit_ius: u64) -> Result<Shape, ShapeError> {
        let iu = u64::from(self.iu_bytes);
        // Places are kept plus one in 32 bits.
        let is_named = units
            .checked_mul(unit_ius)
            .is_some_and(|places| places < u64::from(u32::MAX));
        if !is_named {
            return Err(self.too_large());
        }
        let narrow = |count: u64| u32::try_from(count).expect("places fit 32 bits");
        Ok(Shape {
            bytes: ius * iu,
            iu_bytes: self.iu_bytes,
            ius: narrow(ius),
            units: narrow(units),
            unit_ius: narrow(unit_ius),
            merge_slots: self.merge_slots,
            is_protected: self.is_protected,
            placement: Placement::NONE,
        })
    }
}

/// IUs that the closed units of a drive hold.
fn places(ius: u64, spare_millionths: u64) -> u64 {
    let all = u128::from(ius) * u128::from(spare_millionths) / u128::from(MILLION);
    u64::try_from(all).unwrap_or(u64::MAX)
}

fn millionths(spare: f64) -> u64 {
    (spare * MILLION as f64 + 0.5) as u64
}
