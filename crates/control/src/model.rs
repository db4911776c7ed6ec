//! Models beside drives: what a drive's writes would cost flash of a kind.
//!
//! A file `PATH.model` beside a drive names a data sheet of `media` in its first line; behind that
//! comes the state in which the model was last saved, nothing if it is new. Drives that have one keep
//! account whenever they are open. For demonstrations and measurements on machines without such a
//! drive: the file is written by the data reactor itself, and a crash loses what was counted since.

use crate::error::ControlError;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use varve_hostio::FileDrive;
use varve_io::{Drive, World};
use varve_media::{Modelled, Shape, Sheet, Ssd};
use varve_units::Nanos;

/// Between two times that a model's state is saved.
const SAVE_PAUSE: Nanos = Nanos::from_millis(500);

/// What the flash beneath a drive would have done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModelView {
    /// The data sheet.
    pub sheet: String,
    /// Bytes of its indirection unit.
    pub iu_bytes: u64,
    /// Bytes written to the drive.
    pub host_bytes: u64,
    /// Bytes programmed for that and for internal garbage collection.
    pub media_bytes: u64,
    /// Indirection units read because a write covered them in part.
    pub rmw_reads: u64,
    /// Bytes that internal garbage collection moved; part of `media_bytes`.
    pub gc_moved_bytes: u64,
    /// Erase units erased.
    pub erases: u64,
}

/// The models of drives that are open.
#[derive(Default)]
pub(crate) struct Models(RefCell<Vec<Entry>>);

struct Entry {
    path: PathBuf,
    sheet: String,
    drive: Weak<Modelled<FileDrive>>,
}

/// The file of the model of the drive at `path`.
fn file_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".model");
    name.into()
}

/// Bytes of a data sheet's name at most. Arbitrary: all are shorter.
const NAME_BYTES_MAX: usize = 64;

/// Checks that there is such a data sheet.
///
/// # Errors
/// [`ControlError::Model`].
pub(crate) fn check(sheet: &str) -> Result<(), ControlError> {
    let found = Sheet::named(sheet).map(|_| ());
    found.map_err(|error| ControlError::Model {
        what: error.to_string(),
    })
}

/// Checks that what lies where the model of the drive at `path` would be is one, or nothing: a file that nobody named is
/// not written over and not removed.
///
/// # Errors
/// [`ControlError::NoModel`], [`ControlError::ModelFile`].
pub(crate) fn check_place(path: &Path) -> Result<(), ControlError> {
    match fs::symlink_metadata(file_of(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(of_file(path, &error)),
        Ok(facts) if facts.is_file() && sheet_of(path).is_some() => Ok(()),
        Ok(_) => Err(ControlError::NoModel(file_of(path))),
    }
}

/// Gives the drive at `path` a new model.
///
/// # Errors
/// [`ControlError::Model`]; as [`check_place`].
pub(crate) fn create(path: &Path, sheet: &str) -> Result<(), ControlError> {
    check(sheet)?;
    check_place(path)?;
    let written = replace(&file_of(path), format!("{sheet}\n").as_bytes());
    written.map_err(|error| of_file(path, &error))
}

/// The data sheet of the model of the drive at `path`, whether the drive is there or not.
pub(crate) fn sheet_of(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    let file = fs::File::open(file_of(path)).ok()?;
    file.take(NAME_BYTES_MAX as u64 + 1)
        .read_to_end(&mut text)
        .ok()?;
    let name = text.split(|byte| *byte == b'\n').next()?;
    let name = str::from_utf8(name).ok()?;
    Sheet::named(name).is_ok().then(|| name.to_owned())
}

/// Forgets the model of the drive at `path`, if it has one.
///
/// # Errors
/// As [`check_place`].
pub(crate) fn forget(path: &Path) -> Result<(), ControlError> {
    check_place(path)?;
    match fs::remove_file(file_of(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(of_file(path, &error)),
        _ => Ok(()),
    }
}

fn of_file(path: &Path, error: &impl ToString) -> ControlError {
    ControlError::ModelFile {
        path: file_of(path),
        why: error.to_string(),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = OsString::from(path);
    draft.push(".new");
    fs::write(&draft, bytes)?;
    fs::rename(&draft, path)
}

/// The model that a file describes, for a drive of `bytes`.
fn read(path: &Path, bytes: u64) -> Result<Option<(String, Ssd)>, ControlError> {
    let text = match fs::read(file_of(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| of_file(path, &error))?,
    };
    let end = text.iter().position(|byte| *byte == b'\n');
    let (name, state) = text.split_at(end.unwrap_or(text.len()));
    // Whatever the file is, what is told of it can be read.
    let name = &name[..name.len().min(NAME_BYTES_MAX)];
    let name = String::from_utf8_lossy(name).escape_debug().to_string();
    let sheet = Sheet::named(&name).map_err(|error| of_file(path, &error))?;
    let shape = Shape::scaled(&sheet, bytes).map_err(|error| of_file(path, &error))?;
    let ssd = match state.get(1..) {
        None | Some([]) => Ssd::new(shape),
        Some(saved) => Ssd::restore(shape, saved).map_err(|error| of_file(path, &error))?,
    };
    Ok(Some((name, ssd)))
}

impl Models {
    /// The drive at `path`, keeping account if it has a model.
    ///
    /// # Errors
    /// [`ControlError::Model`]: it has one that cannot be used.
    pub(crate) fn attach(
        self: &Rc<Self>,
        world: &Rc<dyn World>,
        path: &Path,
        drive: FileDrive,
    ) -> Result<Rc<dyn Drive>, ControlError> {
        let Some((sheet, ssd)) = read(path, drive.info().bytes)? else {
            return Ok(Rc::new(drive));
        };
        let drive = Rc::new(Modelled::new(drive, ssd));
        let mut entries = self.0.borrow_mut();
        entries.retain(|entry| entry.path != path && entry.drive.strong_count() > 0);
        entries.push(Entry {
            path: path.to_owned(),
            sheet,
            drive: Rc::downgrade(&drive),
        });
        drop(entries);
        self.keep(world, path);
        Ok(drive)
    }

    /// Saves the model of the drive at `path` now and then, as long as the drive is open.
    fn keep(self: &Rc<Self>, world: &Rc<dyn World>, path: &Path) {
        let (models, world, path) = (Rc::downgrade(self), Rc::clone(world), path.to_owned());
        let clock = Rc::clone(&world);
        world.spawn(Box::pin(async move {
            let mut saved = None;
            loop {
                clock.sleep(SAVE_PAUSE).await;
                let Some(models) = models.upgrade() else {
                    return;
                };
                let Some(view) = models.view(&path) else {
                    return;
                };
                if saved.as_ref() != Some(&view) {
                    models.save(&path);
                    saved = Some(view);
                }
            }
        }));
    }

    /// Saves the model of the drive at `path`, if it has one and is open.
    pub(crate) fn save(&self, path: &Path) {
        let entries = self.0.borrow();
        let Some(entry) = entries.iter().find(|entry| entry.path == path) else {
            return;
        };
        let Some(drive) = entry.drive.upgrade() else {
            return;
        };
        let mut bytes = format!("{}\n", entry.sheet).into_bytes();
        bytes.extend_from_slice(&drive.ssd().save());
        // An account that cannot be kept (a full disk, say) must not keep the pool from working.
        let _ = replace(&file_of(path), &bytes);
    }

    /// What the flash of the drive at `path` would have done, if it has a model and is open.
    pub(crate) fn view(&self, path: &Path) -> Option<ModelView> {
        let entries = self.0.borrow();
        let entry = entries.iter().find(|entry| entry.path == path)?;
        let drive = entry.drive.upgrade()?;
        let ssd = drive.ssd();
        let counters = ssd.counters();
        Some(ModelView {
            sheet: entry.sheet.clone(),
            iu_bytes: ssd.shape().iu_bytes.into(),
            host_bytes: counters.host_bytes,
            media_bytes: counters.media_bytes,
            rmw_reads: counters.rmw_reads,
            gc_moved_bytes: counters.gc_moved_bytes,
            erases: counters.erases,
        })
    }
}
