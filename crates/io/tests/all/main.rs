//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod event;
mod lazy_blocks;
mod recycler;
mod slot;
