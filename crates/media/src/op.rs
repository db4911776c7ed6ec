//! What the drive does to its flash.

/// Where an IU lies: number of its erase unit times IUs of one, plus the offset inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(pub u32);

/// Why flash is read or programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A host's write: programmed for it, or read because it did not cover its IU.
    Host,
    /// Internal garbage collection.
    Gc,
    /// Wear levelling: data that nobody overwrites leave a unit that was erased less than others.
    Wear,
}

/// One operation on the flash. Reads and programs are of one IU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// An IU is read: the rest of one that was written in part, or one that is moved.
    Read(Place, Why),
    /// An IU is programmed.
    Program(Place, Why),
    /// An erase unit is erased.
    Erase(u32),
}
