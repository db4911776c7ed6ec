//! The tests of this crate from outside in one binary: linked once, long ones run beside others.

mod assumptions;
mod bugs;
mod campaign;
mod canaries;
mod drive;
mod fairness;
mod fence;
mod found;
mod real;

/// As in the program: a run makes and drops buffers all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
