//! What is wrong with a pool that is open.

use crate::away::told;
use crate::error::ControlError;
use crate::pools::Pools;
use crate::status::open_drives;
use std::fmt;
use std::path::PathBuf;
use varve_ftl::StopReason;

/// Something that is wrong with a pool that is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A drive does not hold what it should.
    Drive {
        /// Its place, `fast0` say.
        drive: String,
        /// Where it was found.
        path: Option<PathBuf>,
        /// `rebuilding`, `leaving` or `lost`.
        state: String,
    },
    /// The engine stopped by itself: why.
    Stopped(String),
    /// Another owner has taken its drives over: how that is known.
    Taken(String),
    /// Hosts cannot write what was never written before.
    Full,
    /// Hosts cannot write where nothing near was ever written before.
    FullMap,
    /// The dense tier takes no writes.
    DenseAway {
        /// Drives of it that answered writes with errors since the pool was opened.
        drives: Vec<String>,
    },
    /// A drive that the others cannot do without takes no labels.
    Silent {
        /// Its place.
        drive: String,
    },
    /// Reads of hosts fail because a tier does not answer.
    ReadsAway,
    /// The labels found no quorum and note nothing more until the pool is opened again.
    LabelsEnded,
}

/// What to do where another owner has taken the drives of a pool over.
pub(crate) fn taken_next(pool: &str) -> String {
    format!(
        "varve pool export {pool} --forget lets it go here; to have it back: varve pool export {pool} where it is used now, \
         then varve pool import PATH... here"
    )
}

impl Trouble {
    /// What to do next, if anything has to be done.
    #[must_use]
    pub fn next(&self, pool: &str) -> Option<String> {
        match self {
            Self::Drive { drive, state, .. } if state == "lost" => {
                Some(format!("varve drive replace {pool}/{drive} NEW"))
            }
            Self::Drive { .. } => None,
            Self::Taken(_) => Some(taken_next(pool)),
            Self::Stopped(_)
            | Self::Full
            | Self::FullMap
            | Self::DenseAway { .. }
            | Self::Silent { .. }
            | Self::ReadsAway
            | Self::LabelsEnded => Some(format!("varve pool status {pool}")),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drive { drive, path, state } => {
                write!(f, "drive {drive}")?;
                if let Some(path) = path {
                    write!(f, " ({})", path.display())?;
                }
                write!(f, " is {state}")
            }
            Self::Full => f.write_str("full, writes of what was never written before fail"),
            Self::FullMap => f.write_str(
                "its map is full, writes to parts of 2 MiB in which nothing was ever written fail",
            ),
            Self::DenseAway { drives } => write!(
                f,
                "the dense tier takes no writes{}, hosts' writes fail or wait when the fast tier is full",
                told(drives)
            ),
            Self::Silent { drive } => write!(
                f,
                "drive {drive} takes no labels, and the others cannot do without it"
            ),
            Self::ReadsAway => f.write_str("reads of hosts fail because a drive does not answer"),
            Self::LabelsEnded => f.write_str(
                "its labels found no quorum and note nothing more until it is opened again: hosts go on until a drive fails",
            ),
            Self::Taken(how) => write!(
                f,
                "stopped, hosts get errors and nothing more is written to its drives: {how}"
            ),
            Self::Stopped(why) => write!(f, "stopped, hosts get errors: {why}"),
        }
    }
}

impl Pools {
    /// What is wrong with an open pool.
    ///
    /// # Errors
    /// [`ControlError::NoPool`].
    pub fn troubles(&self, pool: &str) -> Result<Vec<Trouble>, ControlError> {
        let running = self.running(pool)?;
        let drives = open_drives(&self.models, &running);
        let away = running.away(self.world.now(), &drives).troubles();
        let drives = drives.into_iter().filter(|drive| drive.state != "live");
        let drives = drives.map(|drive| Trouble::Drive {
            drive: drive.drive,
            path: drive.path,
            state: drive.state,
        });
        let stopped = running.pool.engine().stop_reason();
        let stopped = stopped.filter(|why| *why != StopReason::Closed);
        let stopped = stopped.map(|why| match running.pool.taken() {
            Some(taken) => Trouble::Taken(taken.to_string()),
            None => Trouble::Stopped(why.to_string()),
        });
        let full = running.full();
        let room = [
            full.has_blocks.then_some(Trouble::Full),
            full.has_leaves.then_some(Trouble::FullMap),
        ];
        let room = room.into_iter().flatten();
        Ok(drives.chain(stopped).chain(away).chain(room).collect())
    }
}
