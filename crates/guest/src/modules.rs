//! The modules of a kernel that a guest gets: those asked for, and what they need.

use crate::apt;
use crate::bundle::Bundle;
use crate::error::Unprepared;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A kernel among unpacked packages.
pub struct Kernel {
    /// Its version, as `uname -r` says it.
    pub version: String,
    /// The kernel itself.
    pub image: PathBuf,
    folder: PathBuf,
    /// Files of modules by name.
    files: BTreeMap<String, PathBuf>,
}

impl Kernel {
    /// Finds the one kernel of the packages.
    ///
    /// # Errors
    /// If there is none or several.
    pub fn find(bundle: &Bundle) -> Result<Self, Unprepared> {
        let boot = bundle.root.join("boot");
        let mut versions = Vec::new();
        for entry in fs::read_dir(&boot).map_err(Unprepared::file(&boot))? {
            let name = entry.map_err(Unprepared::file(&boot))?.file_name();
            let version = name
                .to_string_lossy()
                .strip_prefix("vmlinuz-")
                .map(str::to_owned);
            versions.extend(version);
        }
        let [version] = versions.as_slice() else {
            let text = format!("one kernel was expected among the packages: {versions:?}");
            return Err(Unprepared::Content(text));
        };
        let mut folders = ["usr/lib/modules", "lib/modules"].iter();
        let folder = folders.find_map(|place| {
            let folder = bundle.root.join(place).join(version);
            folder.is_dir().then_some(folder)
        });
        let missing = || Unprepared::Content(format!("no modules of kernel {version}"));
        let folder = folder.ok_or_else(missing)?;
        let mut files = BTreeMap::new();
        collect(&folder, &mut files)?;
        Ok(Self {
            image: boot.join(format!("vmlinuz-{version}")),
            version: version.clone(),
            folder,
            files,
        })
    }

    /// Copies modules, unpacked, with all they need below `stage`, and indexes them there.
    ///
    /// # Errors
    /// If a file cannot be copied, or a program of the packages fails.
    pub fn stage(&self, bundle: &Bundle, wanted: &[&str], stage: &Path) -> Result<(), Unprepared> {
        let mut left: Vec<_> = wanted.iter().map(|name| normal(name)).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = left.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            // Otherwise it is built in, only liked to have by another, or lacking in this kernel:
            // scripts say what they load, and fail there.
            if let Some(file) = self.files.get(&name) {
                left.extend(needs(bundle, file)?);
                self.copy(bundle, file, stage)?;
            }
        }
        let target = stage.join("lib/modules").join(&self.version);
        for list in [
            "modules.builtin",
            "modules.order",
            "modules.builtin.modinfo",
        ] {
            let from = self.folder.join(list);
            if from.exists() {
                fs::copy(&from, target.join(list)).map_err(Unprepared::file(&from))?;
            }
        }
        let mut depmod = bundle.command("depmod")?;
        apt::run(depmod.arg("-b").arg(stage).arg(&self.version)).map(drop)
    }

    fn copy(&self, bundle: &Bundle, file: &Path, stage: &Path) -> Result<(), Unprepared> {
        let inside = file
            .strip_prefix(&self.folder)
            .expect("found below this folder");
        let target = stage.join("lib/modules").join(&self.version).join(inside);
        let parent = target.parent().expect("has a folder");
        fs::create_dir_all(parent).map_err(Unprepared::file(parent))?;
        let unpacker = match file.extension().and_then(|end| end.to_str()) {
            Some("xz") => "xz",
            Some("zst") => "zstd",
            _ => {
                fs::copy(file, &target).map_err(Unprepared::file(file))?;
                return Ok(());
            }
        };
        let output = bundle
            .command(unpacker)?
            .arg("-dc")
            .arg(file)
            .output()
            .map_err(Unprepared::file(file))?;
        if !output.status.success() {
            let text = format!("{}: {unpacker}: {}", file.display(), output.status);
            return Err(Unprepared::Content(text));
        }
        let target = target.with_extension("");
        fs::write(&target, output.stdout).map_err(Unprepared::file(&target))
    }
}

/// Names of the modules that the one in `file` needs.
fn needs(bundle: &Bundle, file: &Path) -> Result<Vec<String>, Unprepared> {
    let mut names = Vec::new();
    for field in ["depends", "softdep"] {
        let mut command = bundle.command("modinfo")?;
        let text = apt::run(command.args(["-F", field]).arg(file))?;
        let words = text.split([',', ' ', '\n']).map(str::trim);
        let words = words.filter(|word| !word.is_empty() && !word.ends_with(':'));
        names.extend(words.map(normal));
    }
    Ok(names)
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Unprepared> {
    for entry in fs::read_dir(folder).map_err(Unprepared::file(folder))? {
        let entry = entry.map_err(Unprepared::file(folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Unprepared::file(&path))?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else if entry.file_name().to_string_lossy().contains(".ko") {
            files.insert(name_of(&path), path);
        }
    }
    Ok(())
}

/// The name of the module in a file.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    normal(name.split(".ko").next().unwrap_or(&name))
}

/// Names are the same with `-` and with `_`.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules() {
        assert_eq!(name_of(Path::new("kernel/a/nvme-tcp.ko.xz")), "nvme_tcp");
        assert_eq!(name_of(Path::new("dm_mod.ko")), "dm_mod");
    }
}
