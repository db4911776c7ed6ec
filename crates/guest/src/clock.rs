//! The time that passes outside: how long a guest may take.

use std::time::Instant;

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a guest lives in real time, and is given up on in real time"
)]
pub fn now() -> Instant {
    Instant::now()
}
