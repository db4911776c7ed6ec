//! Anything as PDUs of either direction, and as the lists and logs a host reads.

#![no_main]

mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::pdu_decoder(bytes));
