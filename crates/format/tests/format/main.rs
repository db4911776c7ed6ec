//! The format as its users see it: round trips, damage, hostile bytes, payload places, tables.

#![allow(
    missing_docs,
    reason = "a test binary has no readers of its documentation"
)]

mod checksums;
mod corpus;
mod damage;
mod draw;
mod golden;
mod hostile;
mod limits;
mod payload;
mod round_trip;
