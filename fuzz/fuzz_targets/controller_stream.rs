//! A controller that sends anything to a host.

#![no_main]

mod play;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| play::controller_stream(bytes));
