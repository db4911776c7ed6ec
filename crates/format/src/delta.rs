//! delta
