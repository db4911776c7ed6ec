//! Servers that serve one after another.

/// Time in picoseconds: a byte of a fast link takes less than a nanosecond.
pub(crate) type Picos = u64;

/// Picoseconds of a nanosecond.
pub(crate) const NANO: Picos = 1_000;
const SECOND: u128 = 1_000_000_000_000;

/// One server, first come first served. Whoever arrives must ask at the time it arrives, never
/// ahead of it: a place reserved for later would block those who come in between.
pub(crate) struct Server {
    per_second: u64,
    free_at: Picos,
}

impl Server {
    /// A server of so many bytes, or commands, a second.
    pub(crate) fn new(per_second: u64) -> Self {
        assert!(per_second > 0, "a server that serves");
        Self {
            per_second,
            free_at: 0,
        }
    }

    /// When `amount`, arriving now, will have been served.
    pub(crate) fn serve(&mut self, now: Picos, amount: u64) -> Picos {
        self.serve_for(now, span(amount, self.per_second))
    }

    /// When what arrives now and takes so long will have been served.
    pub(crate) fn serve_for(&mut self, now: Picos, span: Picos) -> Picos {
        self.free_at = self.free_at.max(now) + span;
        self.free_at
    }
}

/// How long `amount` takes at so many a second.
pub(crate) fn span(amount: u64, per_second: u64) -> Picos {
    let span = u128::from(amount) * SECOND / u128::from(per_second);
    Picos::try_from(span).expect("a span of days")
}
