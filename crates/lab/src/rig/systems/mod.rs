//! The storage systems that can be measured.

#[cfg(test)]
mod bed;
pub(crate) mod concat;
pub(crate) mod csal;
pub(crate) mod dm_zoned;
mod ledger;
mod locks;
pub(crate) mod open_cas;
pub(crate) mod varve;
