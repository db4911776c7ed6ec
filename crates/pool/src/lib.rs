//! Composes the engine, arrays and drives into a pool of volumes.
//!
//! **Not here**: how a tier maps blocks (`ftl`), how arrays rebuild them (`array`).

#![no_std]

extern crate alloc;

pub mod label;
