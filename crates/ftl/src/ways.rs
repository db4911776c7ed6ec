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
    /// A copy was out of use when it was asked.
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
            // A copy whose drive the labels call lost says so until that is rebuilt: it has no vote. A
            // tier of which nothing answers is away.
            IoError::Gone => self.gone = true,
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
        self.pending
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

    /// True if it is gone for good; false if it may be there when the drives answer again.
    pub(crate) const fn is_lost(self) -> bool {
        self.answered && !self.pending
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

    #[test]
    fn what_was_gone_is_asked_again() {
        let media = IoError::Media;
        assert!(!of(&[None, Some(media)]).tries_again());
        let mut ways = of(&[Some(IoError::Gone), None]);
        for _ in 1..PASSES_MAX {
            assert!(ways.tries_again());
            assert!(!ways.is_lost(), "nothing is known yet");
            ways.note_error(IoError::Gone);
            ways.note_mismatch();
        }
        assert!(!ways.tries_again());
        assert!(ways.is_lost());
        let mut ways = of(&[Some(IoError::Gone), None]);
        assert!(ways.tries_again());
        ways.note_error(IoError::Timeout);
        assert!(!ways.tries_again() && !ways.is_lost());
    }

    #[test]
    fn only_what_answered_is_lost() {
        assert!(of(&[None, None]).is_lost());
        assert!(of(&[None, Some(IoError::Media)]).is_lost());
        assert!(of(&[Some(IoError::Gone), None]).is_lost());
        assert!(!of(&[Some(IoError::Gone), Some(IoError::Gone)]).is_lost());
        assert!(!of(&[Some(IoError::Timeout), None]).is_lost());
        assert_eq!(of(&[None, Some(IoError::Media)]).away(), None);
        let gone = Some(IoError::Gone);
        assert_eq!(of(&[gone, gone]).away(), gone);
        let timeout = Some(IoError::Timeout);
        assert_eq!(of(&[timeout, None]).away(), timeout);
    }
}
