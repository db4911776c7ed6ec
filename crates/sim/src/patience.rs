//! How long to wait before looking again.

use varve_units::Nanos;

/// The longest wait over a network, where seconds may pass without an answer: each wait is twice
/// the last one.
const PAUSE_MAX: Nanos = Nanos::from_millis(5);

/// Waits, longer each time if that may take long.
pub struct Patience {
    pause: Nanos,
    longest: Nanos,
}

impl Patience {
    /// Begins with `pause`; grows only `over_wire`.
    #[must_use]
    pub fn new(pause: Nanos, over_wire: bool) -> Self {
        let longest = if over_wire { PAUSE_MAX } else { pause };
        Self { pause, longest }
    }

    /// The next wait.
    pub fn next_pause(&mut self) -> Nanos {
        let pause = self.pause;
        self.pause = (pause + pause).min(self.longest);
        pause
    }
}
