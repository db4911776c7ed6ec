//! What all ways to read something came to, when none of them gave it.

use varve_io::IoError;

/// Times that all ways are tried as long as one of them is gone. A member can come back while
/// another way is being read, and that one's leave before it answers: each was out of use when it
/// was asked, and at no time were both. Arbitrary: one more try is misled only by another such
/// exchange, within one read.
const PASSES_MAX: u8 = 3;

/// Why no copy gave what was read.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ways {
    /// A copy answered, and what it holds is not it.
    answered: bool,
    /// A copy may answer another time.
    pending: bool,
    /// A copy is out of use for now: its drive may come back, and have it.
    away: bool,
    /// A copy was out of use when it was asked, for now or for good.
    gone: bool,
    /// In this pass or one before a copy answered that does not have it.
    failed: bool,
    /// Passes that came to nothing.
    passes: u8,
}

impl Ways {
    /// A copy was read and failed its check.
    pub(crate) const fn note_mismatch(&mut self) {
        self.answered = true;
        self.failed = true;
    }

    /// A copy could not be read.
    pub(crate) const fn note_error(&mut self, error: IoError) {
        match error {
            IoError::Media => self.note_mismatch(),
            // A copy whose drive the labels call lost says so until another is filled: it has no vote.
            IoError::GivenUp => self.gone = true,
            IoError::Gone => {
                self.gone = true;
                self.away = true;
            }
            // Whatever else there is may pass.
            _ => self.pending = true,
        }
    }

    /// All ways were tried, in vain. True if they are to be tried again before anything is concluded
    /// from that: one that was gone may be back since.
    pub(crate) const fn tries_again(&mut self) -> bool {
        self.passes += 1;
        let again = self.gone && self.passes < PASSES_MAX;
        if again {
            *self = Self {
                answered: false,
                pending: false,
                away: false,
                gone: false,
                ..*self
            };
        }
        again
    }

    /// True if what another way gives mends a copy; one that is out of use is not mended.
    pub(crate) const fn mends(self) -> bool {
        self.failed
    }

    /// True if a copy may answer another time.
    pub(crate) const fn is_pending(self) -> bool {
        self.pending || self.away
    }

    /// What is in the way of it, unless it is gone for good.
    pub(crate) const fn away(self) -> Option<IoError> {
        if self.is_lost() {
            return None;
        }
        Some(if self.pending {
            IoError::Timeout
        } else {
            IoError::Gone
        })
    }

    /// What is in the way of it, of something that is there or was.
    pub(crate) fn why(self) -> IoError {
        self.away().unwrap_or(IoError::Media)
    }

    /// True if it is gone for good; false if it may be there when the drives answer again.
    pub(crate) const fn is_lost(self) -> bool {
        self.answered && !self.is_pending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errors: &[Option<IoError>]) -> Ways {
        let mut ways = Ways::default();
        for error in errors {
            match error {
                Some(error) => ways.note_error(*error),
                None => ways.note_mismatch(),
            }
        }
        ways
    }

    const GONE: Option<IoError> = Some(IoError::Gone);
    const GIVEN_UP: Option<IoError> = Some(IoError::GivenUp);

    #[test]
    fn what_was_gone_is_asked_again() {
        let media = IoError::Media;
        assert!(!of(&[None, Some(media)]).tries_again());
        for (absence, is_lost) in [(GONE, false), (GIVEN_UP, true)] {
            let mut ways = of(&[absence, None]);
            for _ in 1..PASSES_MAX {
                assert!(ways.tries_again());
                assert!(!ways.is_lost(), "nothing is known yet");
                ways.note_error(absence.expect("an error"));
                ways.note_mismatch();
            }
            assert!(!ways.tries_again());
            assert_eq!(ways.is_lost(), is_lost);
        }
        let mut ways = of(&[GONE, None]);
        assert!(ways.tries_again());
        ways.note_error(IoError::Timeout);
        assert!(!ways.tries_again() && !ways.is_lost());
    }

    /// Of two ways, whatever each came to: lost is only what was read wrong, where all others were too or were given up.
    #[test]
    fn only_what_no_way_can_hold_is_lost() {
        let wrong = [None, Some(IoError::Media)];
        let absent = [GONE, Some(IoError::Timeout)];
        for one in wrong.into_iter().chain(absent).chain([GIVEN_UP]) {
            for other in wrong.into_iter().chain(absent).chain([GIVEN_UP]) {
                let ways = of(&[one, other]);
                let both = [one, other];
                let is_wrong = both.iter().any(|way| wrong.contains(way));
                let may_return = both.iter().any(|way| absent.contains(way));
                assert_eq!(ways.is_lost(), is_wrong && !may_return, "{both:?}");
                assert_eq!(ways.is_pending(), may_return, "{both:?}");
                let late = both.contains(&Some(IoError::Timeout));
                let away = if late { Some(IoError::Timeout) } else { GONE };
                let expected = if ways.is_lost() { None } else { away };
                assert_eq!(ways.away(), expected, "{both:?}");
            }
        }
    }
}
