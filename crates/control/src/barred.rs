//! A state directory of another user.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a user may not use, and who may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Barred {
    /// The state directory.
    directory: PathBuf,
    /// The directory can be read; what is barred is its daemon.
    is_daemon: bool,
    /// Who owns it, if that is known.
    owner: Option<String>,
}

impl Barred {
    /// What keeps a user from a socket, where the system said that the user may not connect to it.
    pub(crate) fn from_socket(socket: &Path) -> Self {
        let directory = socket.parent().unwrap_or(socket);
        let is_daemon = std::fs::metadata(socket).is_ok();
        // What is named is who may use what is barred. The user may see it only from outside.
        let barred = if is_daemon { socket } else { directory };
        let owner = std::fs::metadata(barred).map(|meta| user(meta.uid()));
        Self {
            directory: directory.to_owned(),
            is_daemon,
            owner: owner.ok(),
        }
    }

    /// What the user can do next.
    pub(crate) fn next(&self) -> String {
        let who = self.owner.as_deref().unwrap_or("its owner");
        format!(
            "run the command as {who} (with sudo, say), or name a directory of your own: --state DIR"
        )
    }
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.directory.display();
        let whom = self.owner.as_deref().unwrap_or("its owner");
        match self.is_daemon {
            true => write!(
                f,
                "the daemon of the state directory {directory} answers {whom} only"
            ),
            false => write!(
                f,
                "the state directory {directory} may be read by {whom} only"
            ),
        }
    }
}

/// A user as people know it: by name if the system tells one in its list of users.
fn user(uid: u32) -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&list, uid).map_or_else(|| format!("user {uid}"), |name| format!("user {name}"))
}

/// The name in a list of users as passwd(5) has it.
fn named(list: &str, uid: u32) -> Option<&str> {
    let uid = uid.to_string();
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then_some(name)
    })
}

/// Why a daemon cannot be asked: somebody else's, or what the system says.
pub(crate) fn of_connect(socket: &Path, error: io::Error) -> crate::ControlError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => crate::ControlError::Barred(Barred::from_socket(socket)),
        _ => crate::ControlError::Daemonless(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_where_the_system_tells_them() {
        let list = "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(named(list, 0), Some("root"));
        assert_eq!(named(list, 1000), Some("ann"));
        assert_eq!(named(list, 100), None);
    }

    /// Who is barred hears of the directory or of the daemon in it, and who may use it.
    #[test]
    fn what_is_barred_is_told_with_who_may_use_it() {
        let directory = std::env::temp_dir().join(format!("varve-barred-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let owner = user(std::fs::metadata(&directory).unwrap().uid());
        let socket = directory.join("varve.sock");
        let denied = || of_connect(&socket, io::ErrorKind::PermissionDenied.into());
        let outside = denied();
        std::fs::write(&socket, "").unwrap();
        let inside = denied();
        std::fs::remove_dir_all(&directory).unwrap();
        let text = outside.to_string();
        assert!(
            text.contains("may be read by") && text.contains(&owner),
            "{text}"
        );
        let text = inside.to_string();
        assert!(text.contains("daemon") && text.contains(&owner), "{text}");
        for error in [outside, inside] {
            assert_eq!(
                (error.code(), error.exit()),
                ("denied", crate::Exit::Refused)
            );
            let next = error.next();
            assert!(next.contains(&owner) && next.contains("--state"), "{next}");
        }
        let gone = of_connect(&socket, io::ErrorKind::ConnectionReset.into());
        assert_eq!(gone.code(), "daemon-gone");
    }
}
