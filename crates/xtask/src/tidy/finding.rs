//! What a rule found.

use std::fmt;

/// One place that breaks a rule; ordered by place.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// Path from the root of the repository.
    pub path: String,
    /// Line from 1; 0 for the file as a whole.
    pub line: usize,
    /// Name of the rule: the module it stands in.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub text: String,
    /// Whether it only asks for a second look.
    pub warning: bool,
}

impl Finding {
    /// A finding that fails the run.
    pub fn error(rule: &'static str, path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            text: text.into(),
            warning: false,
        }
    }

    /// A finding that does not.
    pub fn warning(rule: &'static str, path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::error(rule, path, line, text)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.warning { "warning" } else { "error" };
        write!(
            f,
            "{}:{}: {level}: {}: {}",
            self.path, self.line, self.rule, self.text
        )
    }
}
