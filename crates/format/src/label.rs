//! label
