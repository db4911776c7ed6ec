//! The varve binary.
fn main() {}
