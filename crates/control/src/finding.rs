//! What was found before something was to be changed, as every front end shows it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use varve_hostio as hostio;

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// May matter later.
    Warning,
    /// Going on destroys something: only after the user has said so.
    Confirm,
    /// Cannot be used like this.
    Refusal,
}

/// One thing found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// How grave it is.
    pub severity: Severity,
    /// What kind of thing, for programs.
    pub code: String,
    /// Where; none if it concerns all.
    pub path: Option<PathBuf>,
    /// What, for people.
    pub text: String,
}

impl Finding {
    pub(crate) fn new(severity: Severity, code: &str, text: impl Into<String>) -> Self {
        Self {
            severity,
            code: code.to_owned(),
            path: None,
            text: text.into(),
        }
    }

    pub(crate) fn at(self, path: impl Into<PathBuf>) -> Self {
        let path = Some(path.into());
        Self { path, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl From<&hostio::Finding> for Finding {
    fn from(found: &hostio::Finding) -> Self {
        let severity = match found.severity() {
            hostio::Severity::Warning => Severity::Warning,
            hostio::Severity::Confirm => Severity::Confirm,
            hostio::Severity::Refusal => Severity::Refusal,
        };
        let whole = found.to_string();
        let prefix = format!("{}: ", found.path.display());
        let text = whole.strip_prefix(&prefix).unwrap_or(&whole);
        Self::new(severity, code(&found.what), text).at(&found.path)
    }
}

fn code(what: &hostio::What) -> &'static str {
    match what {
        hostio::What::Missing => "missing",
        hostio::What::Exists => "exists",
        hostio::What::NoDirectory(_) => "no-directory",
        hostio::What::DirectoryDenied(_) => "directory-denied",
        hostio::What::DirectoryReadOnly(_) => "directory-read-only",
        hostio::What::Kind => "not-a-disk",
        hostio::What::Denied => "denied",
        hostio::What::ReadOnly => "read-only",
        hostio::What::Twice(_) => "twice",
        hostio::What::InUse(_) => "in-use",
        hostio::What::TooSmall { .. } => "too-small",
        hostio::What::LbaBytes(_) => "sector-size",
        hostio::What::Holds(_) => "holds-data",
        hostio::What::Space { .. } => "space",
        _ => "system",
    }
}
