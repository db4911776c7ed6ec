//! A host that sends anything to a target.

#![no_main]

mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::host_stream(bytes));
