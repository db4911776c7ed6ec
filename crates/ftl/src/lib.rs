//! The host flash translation layer.
//!
//! **Not here**: redundancy (`array`), volumes' names and tenants (`pool`), the wire (`target`).

#![no_std]

extern crate alloc;

pub mod map;
