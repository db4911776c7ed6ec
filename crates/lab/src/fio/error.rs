//! Why a job file is no load.

use std::fmt;

/// Characters of a file's text that an error repeats at most.
const SHOWN_MAX: usize = 60;

/// Why a job file is no load. Lines are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FioError {
    /// Longer than any job file.
    Long {
        /// Its length.
        bytes: usize,
        /// The longest that is read.
        max: usize,
    },
    /// A section whose name is not enclosed in brackets, or empty.
    Header {
        /// Where.
        line: u32,
    },
    /// An option before the first section.
    Stray {
        /// Where.
        line: u32,
        /// What stands there.
        text: String,
    },
    /// The file draws in another.
    Include {
        /// Where.
        line: u32,
    },
    /// The file asks for the environment or the machine: then it would not say what it is.
    Variable {
        /// Where.
        line: u32,
        /// Of which option.
        option: String,
    },
    /// An option that is neither honoured nor known to be without effect.
    Option {
        /// Where.
        line: u32,
        /// Its name.
        option: String,
    },
    /// An option that cannot have this value.
    Value {
        /// Where.
        line: u32,
        /// Its name.
        option: String,
        /// What stands there.
        value: String,
        /// What could.
        expected: &'static str,
    },
    /// Options of a job that do not go together.
    Conflict {
        /// Where the job begins.
        line: u32,
        /// Its name.
        job: String,
        /// Which ones.
        why: &'static str,
    },
    /// No job, or no more than global ones.
    Empty,
    /// More jobs than fio runs if it is not told otherwise (`--max-jobs`), clones included.
    Jobs {
        /// How many.
        jobs: u64,
        /// The most.
        max: u64,
    },
}

impl FioError {
    /// What would help.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::Long { .. } => "give a job file",
            Self::Header { .. } => "write a section as [name]",
            Self::Stray { .. } => "put options below [global] or the name of a job in brackets",
            Self::Include { .. } => "copy the lines of that file to this place",
            Self::Variable { .. } => "write the value itself",
            Self::Option { .. } => "remove it, or say the same with options that docs/lab.md lists",
            Self::Value { .. } => "correct the value, or remove the line",
            Self::Conflict { .. } => "change one of them",
            Self::Empty => "add a section with the name of a job in brackets",
            Self::Jobs { .. } => "lower numjobs",
        }
    }
}

/// Text of a file as an error shows it: one line, not long.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

impl fmt::Display for FioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long { bytes, max } => write!(f, "{bytes} bytes are no job file: at most {max}"),
            Self::Header { line } => write!(f, "line {line}: a section without a name in brackets"),
            Self::Stray { line, text } => write!(f, "line {line}: `{text}` stands in no section"),
            Self::Include { line } => write!(f, "line {line}: other files are not included"),
            Self::Variable { line, option } => write!(
                f,
                "line {line}: the value of `{option}` is a variable, and a load is what its file says"
            ),
            Self::Option { line, option } => write!(
                f,
                "line {line}: option `{option}` is not modelled, and not known to be without effect"
            ),
            Self::Value {
                line,
                option,
                value,
                expected,
            } => write!(f, "line {line}: `{option}` is `{value}`: {expected}"),
            Self::Conflict { line, job, why } => write!(f, "line {line}: job `{job}`: {why}"),
            Self::Empty => f.write_str("the file has no job"),
            Self::Jobs { jobs, max } => write!(f, "{jobs} jobs with their clones: at most {max}"),
        }
    }
}

impl std::error::Error for FioError {}
