//! Anything as a structure on media whose checksum holds.

#![no_main]

mod media;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| media::structures(bytes));
