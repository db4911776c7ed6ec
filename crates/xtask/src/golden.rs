//! Writes golden files anew: runs the tests with `VARVE_GOLDEN=update`, then shows what changed.

use std::path::Path;
use std::process::Command;

/// Runs all tests in updating mode and lists the files that differ.
///
/// # Errors
/// If a test fails for another reason than an old golden file, or git cannot be asked.
pub fn run(root: &Path) -> Result<(), String> {
    let status = Command::new("cargo")
        .args(["test", "--workspace", "--quiet", "--no-fail-fast"])
        .env("VARVE_GOLDEN", "update")
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo test: {error}"))?;
    let changed = Command::new("git")
        .args([
            "status",
            "--short",
            "--",
            ":(glob)**/golden/**",
            "docs/format.md",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git status: {error}"))?;
    let changed = String::from_utf8_lossy(&changed.stdout).into_owned();
    if changed.is_empty() {
        eprintln!("golden: nothing changed");
    } else {
        println!("{}", changed.trim_end());
        eprintln!("golden: review these like an interface before you commit them");
    }
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo test: {status}"))
    }
}
