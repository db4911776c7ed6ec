//! The storage systems that can be measured.

pub(crate) mod concat;
pub(crate) mod varve;
