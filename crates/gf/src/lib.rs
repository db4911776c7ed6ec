//! gf
