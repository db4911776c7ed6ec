//! What all ways to read something came to, when none of them gave it.

use varve_io::IoError;

/// Why no copy gave what was read.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ways {
    /// A copy answered, and what it holds is not it.
    answered: bool,
    /// A copy may answer another time.
    pending: bool,
}

impl Ways {
    /// A copy was read and failed its check.
    pub(crate) const fn note_mismatch(&mut self) {
        self.answered = true;
    }

    /// A copy could not be read.
    pub(crate) const fn note_error(&mut self, error: IoError) {
        match error {
            IoError::Media => self.answered = true,
            // A copy whose drive the labels call lost says so for ever: it has no vote. A tier of
            // which nothing answers is away.
            IoError::Gone => {}
            // Whatever else there is may pass.
            _ => self.pending = true,
        }
    }

    /// True if a copy may answer another time.
    pub(crate) const fn is_pending(self) -> bool {
        self.pending
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
    fn only_what_answered_is_lost() {
        assert!(of(&[None, None]).is_lost());
        assert!(of(&[None, Some(IoError::Media)]).is_lost());
        assert!(of(&[Some(IoError::Gone), None]).is_lost());
        assert!(!of(&[Some(IoError::Gone), Some(IoError::Gone)]).is_lost());
        assert!(!of(&[Some(IoError::Timeout), None]).is_lost());
    }
}
