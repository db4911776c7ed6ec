//! Job files of fio, as a user names them.

use super::{Exit, complain};
use std::io::ErrorKind;
use std::path::Path;
use varve_lab::fio::{FioError, Plan};

/// What would help where there is no job file.
const ANOTHER: &str = "give the path of a job file behind fio:";

/// Reads a job file, or tells why it is none.
pub(super) fn read(file: &Path) -> Result<Plan, Exit> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        let (code, next, exit) = match error.kind() {
            ErrorKind::NotFound => ("no-job-file", ANOTHER, Exit::NotFound),
            ErrorKind::InvalidData | ErrorKind::IsADirectory => {
                ("not-a-job-file", ANOTHER, Exit::Usage)
            }
            _ => ("unreadable", "see that this user may read it", Exit::Failed),
        };
        complain(
            code,
            &format!("the job file {name} cannot be read: {error}"),
            next,
        );
        exit
    })?;
    text.parse()
        .map_err(|error: FioError| refused(file, &error.to_string(), error.next()))
}

/// Tells why a job file is no load.
pub(super) fn refused(file: &Path, error: &str, next: &str) -> Exit {
    complain(
        "bad-job-file",
        &format!("{}: {error}", file.display()),
        next,
    );
    Exit::Usage
}
