//! Which erase unit is freed next, and how fast.
//!
//! Greedy: the closed unit with the fewest live IUs, as in Desnoyers' analysis. Now and then, if
//! wear has spread too far, the least worn one instead: data that nobody overwrites would keep it
//! fresh for ever.

use crate::candidates::Candidates;
use crate::erase::EraseUnits;
use crate::map::Map;
use crate::op::Why;

/// Free units below which collection runs beside the host's writes.
pub(crate) const FREE_TARGET: usize = 3;
/// Free units that only collection may use.
pub(crate) const FREE_RESERVE: usize = 1;
/// Erases by which the most and the least worn unit may differ. Arbitrary: a few per cent of the
/// thousands that flash endures.
pub(crate) const WEAR_GAP_MAX: u32 = 32;
/// One victim in this many may be chosen for its wear. Arbitrary.
const WEAR_TURN: u64 = 16;

/// The unit being freed.
pub(crate) struct Victim {
    pub(crate) unit: u32,
    /// Garbage collection or wear levelling.
    pub(crate) why: Why,
    /// Offset in it of the next IU to look at.
    pub(crate) next: u32,
    /// Live IUs when it was chosen.
    live: u32,
    /// Space that freeing it gives, in IUs.
    gain: u32,
    /// Moves that are due, times `gain`.
    debt: u64,
}

impl Victim {
    /// A unit of `unit_ius` IUs, `live` of them live.
    pub(crate) fn new(unit: u32, why: Why, live: u32, unit_ius: u32) -> Self {
        Self {
            unit,
            why,
            next: 0,
            live,
            // A unit chosen for its wear may give nothing; it is moved beside the host's writes
            // all the same.
            gain: (unit_ius - live).max(unit_ius.div_ceil(8)),
            debt: 0,
        }
    }

    /// The host has programmed one more IU. Moves are due in such measure that the unit is free
    /// when the host has used up what it gives.
    pub(crate) fn owe(&mut self) {
        self.owe_quietly(1);
    }

    /// IUs that the host can program before a move is due.
    pub(crate) fn quiet(&self) -> u64 {
        let left = u64::from(self.gain).saturating_sub(self.debt + 1);
        left / u64::from(self.live.max(1))
    }

    /// The host has programmed so many, no more than are [`Victim::quiet`].
    pub(crate) fn owe_quietly(&mut self, ius: u32) {
        self.debt += u64::from(self.live.max(1)) * u64::from(ius);
    }

    /// True if a move is due; it then counts as made.
    pub(crate) fn is_due(&mut self) -> bool {
        let gain = u64::from(self.gain);
        let is_due = self.debt >= gain;
        if is_due {
            self.debt -= gain;
        }
        is_due
    }
}

/// The next victim; `turn` counts them.
///
/// # Panics
/// If no closed unit has anything to give: the shape then has less space than the host may use.
pub(crate) fn choose(
    candidates: &mut Candidates,
    map: &mut Map,
    units: &mut EraseUnits,
    unit_ius: u32,
    turn: u64,
) -> Victim {
    if let Some(unit) = least_worn(units, turn) {
        return Victim::new(unit, Why::Wear, map.live(unit), unit_ius);
    }
    let greedy = candidates.least(map, units);
    let unit = greedy.expect("an erase unit is closed");
    let live = map.live(unit);
    assert!(live < unit_ius, "no erase unit has space");
    Victim::new(unit, Why::Gc, live, unit_ius)
}

/// The least worn closed unit, if it is its turn and wear has spread too far.
fn least_worn(units: &EraseUnits, turn: u64) -> Option<u32> {
    if !turn.is_multiple_of(WEAR_TURN) || units.free() <= FREE_RESERVE {
        return None;
    }
    let wear = |unit: u32| units.erases()[unit as usize];
    let least_worn = units.closed().min_by_key(|unit| (wear(*unit), *unit));
    least_worn.filter(|unit| units.erases_max() - wear(*unit) > WEAR_GAP_MAX)
}
