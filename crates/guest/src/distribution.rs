//! Which distribution this machine runs: where packages come from and what the kernel's is called.

use crate::error::Unprepared;
use std::process::Command;

/// The suite of Debian that the guest is made from, whatever the host's own is.
///
/// Its kernel 6.12 and QEMU 10 go together. QEMU 7.2 of Debian 12 does not: most boots oops.
const DEBIAN_SUITE: &str = "trixie";

/// The keys that sign Debian's suites; each release of Debian 12 and later has them.
const DEBIAN_KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where packages come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// The package of the newest kernel.
    pub kernel: &'static str,
    /// Lines for apt in place of the host's own; none to use the host's own.
    pub sources: Option<String>,
}

impl Distribution {
    /// The distribution of this machine.
    ///
    /// # Errors
    /// If it is none that packages are known for, or another architecture than x86-64.
    pub fn of_this_machine() -> Result<Self, Unprepared> {
        if std::env::consts::ARCH != "x86_64" {
            let found = std::env::consts::ARCH;
            let text = format!("guests are made for x86_64 only, this machine is {found}");
            return Err(Unprepared::Machine(text));
        }
        let release = "/etc/os-release";
        let release = std::fs::read_to_string(release).map_err(Unprepared::file(release))?;
        match field(&release, "ID") {
            Some("debian") => Self::debian(field(&release, "VERSION_CODENAME").unwrap_or("")),
            Some("ubuntu") => Ok(Self {
                kernel: "linux-image-generic",
                sources: None,
            }),
            found => Err(Unprepared::Machine(format!(
                "guests are made from packages of Debian or Ubuntu, this is {}",
                found.unwrap_or("neither")
            ))),
        }
    }

    fn debian(codename: &str) -> Result<Self, Unprepared> {
        let format = "$(CREATED_BY) $(RELEASE) $(COMPONENT) $(REPO_URI)";
        let output = Command::new("apt-get")
            .args(["indextargets", "--format", format])
            .output()
            .map_err(|error| Unprepared::Sources(format!("apt-get: {error}")))?;
        let targets = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some(mirror) = mirror(&targets, codename) else {
            let text =
                format!("apt knows no mirror of Debian: no `{codename} main` in its sources");
            return Err(Unprepared::Sources(text));
        };
        let line = format!("deb [signed-by={DEBIAN_KEYS}] {mirror} {DEBIAN_SUITE} main\n");
        Ok(Self {
            kernel: "linux-image-amd64",
            sources: Some(line),
        })
    }
}

/// The mirror that the host's own suite comes from, among lines of `apt-get indextargets`.
fn mirror<'a>(targets: &'a str, codename: &str) -> Option<&'a str> {
    let wanted = format!("Packages {codename} main ");
    targets.lines().find_map(|line| line.strip_prefix(&wanted))
}

/// The value of a field of os-release.
fn field<'a>(release: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    release
        .lines()
        .find_map(value)
        .map(|value| value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let release = "ID_LIKE=x\nID=debian\nVERSION_CODENAME=\"bookworm\"\n";
        assert_eq!(field(release, "ID"), Some("debian"));
        assert_eq!(field(release, "VERSION_CODENAME"), Some("bookworm"));
        assert_eq!(field(release, "VERSION"), None);
    }

    #[test]
    fn the_hosts_own_mirror_is_used() {
        let targets = "Packages stable main http://other\nSources bookworm main http://no\n\
                       Packages bookworm contrib http://no\nPackages bookworm main http://here/debian/\n";
        assert_eq!(mirror(targets, "bookworm"), Some("http://here/debian/"));
        assert_eq!(mirror(targets, "sid"), None);
    }
}
