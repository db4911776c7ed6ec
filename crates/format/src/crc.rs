//! crc
