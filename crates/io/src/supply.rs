//! Where the metadata that an engine writes all the time have their memory from.

use crate::buffer::Sectors;
use crate::recycler::Home;
use core::fmt;
use varve_units::SECTOR;
use zerocopy::IntoBytes;

/// Gives memory of sectors that was used before, if there is a home for such, or fresh memory: aligned memory takes an
/// allocator a long way, and is zeroed before it is filled.
#[derive(Clone, Copy, Default)]
pub struct Supply(Option<&'static dyn Home>);

impl Supply {
    /// Memory comes from `home`, and goes back there.
    #[must_use]
    pub const fn of(home: &'static dyn Home) -> Self {
        Self(Some(home))
    }

    /// The sectors that hold `bytes`, the last one padded with zeroes.
    #[must_use]
    pub fn copy(self, bytes: &[u8]) -> Sectors {
        if self.0.is_none() {
            return Sectors::from_bytes(bytes);
        }
        self.filled(bytes.len().div_ceil(SECTOR), |into| {
            let (copy, padding) = into.split_at_mut(bytes.len());
            copy.copy_from_slice(bytes);
            padding.fill(0);
        })
    }

    /// `count` sectors that `write` fills, all of them: what it finds there is not defined.
    #[must_use]
    pub fn filled(self, count: usize, write: impl FnOnce(&mut [u8])) -> Sectors {
        let write = |bytes: &mut [u8]| {
            // Who leaves something out is found out by every test that looks at it.
            if cfg!(debug_assertions) {
                bytes.fill(0xa5);
            }
            write(bytes);
        };
        let Some(home) = self.0 else {
            return Sectors::made(count, write);
        };
        let mut memory = home.take_sectors(count);
        write(memory.as_mut_slice().as_mut_bytes());
        Sectors::of_home(memory, home)
    }
}

impl fmt::Debug for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.is_some() { "used" } else { "fresh" };
        write!(f, "supply of {kind} memory")
    }
}
