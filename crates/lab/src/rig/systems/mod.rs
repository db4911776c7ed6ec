//! The storage systems that can be measured.

pub(crate) mod concat;
pub(crate) mod csal;
pub(crate) mod varve;
