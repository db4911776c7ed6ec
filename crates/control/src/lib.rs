//! The control plane: pools by the paths of their drives, their volumes, what changes on them.
//!
//! [`Pools`] is the whole of it, one object on the data reactor. It has two front ends: a command that
//! finds no daemon makes one, does one thing and closes it; a daemon keeps one and answers commands
//! over a socket. Both say the same: a [`Request`] in, a [`Reply`] or a [`Failure`] out.
//!
//! # How a daemon uses it
//! ```no_run
//! # use std::rc::Rc;
//! # use varve_control::{Config, ControlError, Event, Home, Pools};
//! # async fn daemon(world: Rc<dyn varve_io::World>) -> Result<(), ControlError> {
//! let home = Home::open(&Home::usual())?;
//! let _alone = home.hold()?; // one daemon in a state directory
//! let pools = Pools::new(world, home, Config::default())?;
//! let watch = pools.watch(); // before anything is opened: no change is missed
//! for (name, outcome) in pools.open_all().await {
//!     if let Err(error) = outcome {
//!         eprintln!("pool {name}: {error}"); // it stays closed; the others serve
//!     }
//! }
//! for volume in pools.volumes() {
//!     // `volume.info()` has uuid, nguid, size; `volume.read(..)`, `write(..)`, `flush()`.
//! }
//! loop {
//!     match watch.next().await {
//!         Event::VolumeCreated(volume) | Event::VolumeResized(volume) => { /* serve it */ }
//!         Event::VolumeDeleted(info) => { /* withdraw it */ }
//!         Event::PoolOpened { pool } | Event::PoolClosing { pool } => { /* its volumes */ }
//!         Event::PoolTaken { pool } => { /* another owner has it: its volumes answer with errors */ }
//!         Event::Missed => { /* too slow: compare with `pools.volumes()` */ }
//!     }
//! #   break;
//! }
//! pools.close_all().await; // after SIGTERM: drains, commits a checkpoint, clean labels
//! # Ok(()) }
//! ```
//! Commands reach it over [`line`] and [`http::listen`]:
//! ```no_run
//! # use std::rc::Rc;
//! # fn api(world: Rc<dyn varve_io::World>, home: varve_control::Home,
//! #     pools: Rc<varve_control::Pools>) -> std::io::Result<()> {
//! let (caller, line) = varve_control::line(&*world)?;
//! world.spawn(Box::pin(pools.serve(line)));
//! let server = varve_control::http::listen(&home, caller)?; // a thread; `server.end(..).await` before close_all
//! # Ok(()) }
//! ```
//! A [`Volume`] is a handle: it keeps nothing open. Operations on a volume whose pool was closed fail
//! with `EngineError::Stopped`, those on a deleted one with `NoSuchVolume`. An event is told after
//! the change is durable, except [`Event::PoolClosing`], which comes before. Volumes of pools that are
//! opened or closed are told by the pool's event only. A command ends once whoever follows with [`Watch::next`] has done
//! what it was told of, so a volume that was created is there for hosts; after five seconds it ends without.
//!
//! # State directory
//! `registry.json` remembers which paths belong to which pool; it can always be made anew by an
//! import of the paths, because identity lies on the drives. `owner` holds 16 random bytes in
//! hexadecimal: who this machine is to a pool's labels. `names.lock` is held by whoever makes a pool, until the
//! registry knows its name, `command.lock` by a command that opens pools itself, until it has ended: others wait
//! for it.
//!
//! **Invariants**: nothing on a drive is changed before everything that was asked for was checked; a
//! drive that is in use is never touched; one change of a pool's drives at a time.
//!
//! **Not here**: what a pool is (`pool`), how hosts reach volumes (the daemon), how replies are shown
//! (the command line).

mod away;
mod barred;
mod check;
mod closing;
mod create;
mod document;
mod drives;
mod error;
mod events;
mod failure;
mod finding;
mod home;
mod hosts;
pub mod http;
pub mod inspect;
mod jobs;
mod line;
pub mod local;
mod looks;
mod losses;
mod model;
mod next_step;
mod open;
mod path;
mod place;
mod plan;
mod pools;
mod queue;
mod random;
mod rebuild;
mod registry;
mod replace;
mod request;
mod risks;
mod room;
mod running;
mod scan;
mod scrub;
mod seen;
mod size;
mod status;
mod steps;
mod trouble;
mod turn;
mod view;
mod volume;
mod volumes;
mod within;

pub use barred::Barred;
pub use check::{BadDrive, CheckView};
pub use closing::Closings;
pub use create::{CreatePool, Protect};
pub use document::{Document, Failed};
pub use error::ControlError;
pub use events::{Event, UnderWay, Watch};
pub use failure::{Exit, Failure};
pub use finding::{Finding, Severity};
pub use home::Home;
pub use jobs::{JobState, JobView};
pub use line::{Caller, Line, line};
pub use losses::Loss;
pub use model::ModelView;
pub use open::ImportPool;
pub use path::{DrivePath, PathError};
pub use pools::{Config, Pools};
pub use rebuild::{NamedVolume, RebuildPool, RebuildView, RebuiltVolume};
pub use registry::{Entry, Registry};
pub use replace::ReplaceDrive;
pub use request::{Reply, Request, SCHEMA_VERSION};
pub use scan::{OtherUse, Scan, scan};
pub use scrub::{SCRUB_LIMIT, ScrubPool, ScrubView};
pub use seen::Seen;
pub use size::{SizeError, parse_bytes, parse_size};
pub use steps::CheckStep;
pub use trouble::Trouble;
pub use view::{DriveView, FaultsView, Health, PlanView, PoolView, VolumeView};
pub use volume::{Volume, VolumeInfo};
pub use volumes::CreateVolume;
pub use within::within;
