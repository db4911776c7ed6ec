//! What the server says of the pool, asked now and then by a thread of its own: whoever loads the pool
//! must not wait for it.

use super::site::POOL;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use varve_control::{PoolView, Reply, Request, http::client};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// The newest answer of a server's life, and sums over its former lives.
#[derive(Default)]
struct Known {
    newest: Option<PoolView>,
    /// Engine counters of servers that were killed.
    before: Engine,
}

/// What the engine counted, in blocks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Engine {
    /// Blocks that compaction wrote to the dense tier.
    pub(super) compacted: u64,
    /// Blocks that garbage collection wrote there.
    pub(super) collected: u64,
}

/// What dense drives would have done to their flash, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Flash {
    /// Written by the array: data, parity, P2L.
    pub(super) host: u64,
    /// Programmed.
    pub(super) media: u64,
    /// Indirection units read because they were written in part.
    pub(super) rmw_reads: u64,
    /// Moved by their own garbage collection.
    pub(super) moved: u64,
}

/// What is known of the pool; copies share it.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<Mutex<Known>>);

impl Watch {
    /// Asks whoever listens at `socket` until the last copy is dropped.
    pub(super) fn start(socket: PathBuf) -> Self {
        let watch = Self::default();
        let known = Arc::downgrade(&watch.0);
        thread::spawn(move || {
            while let Some(known) = known.upgrade() {
                if let Some(view) = ask(&socket) {
                    known.lock().unwrap_or_else(PoisonError::into_inner).newest = Some(view);
                }
                drop(known);
                thread::sleep(PAUSE);
            }
        });
        watch
    }

    /// The server was killed: what it counted is kept, its successor counts from zero.
    pub(super) fn note_killed(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = known.newest.take() {
            let own = engine(&view);
            known.before.compacted += own.compacted;
            known.before.collected += own.collected;
        }
    }

    /// What engines counted, of all lives; those of a killed one up to a moment before.
    pub(super) fn engine(&self) -> Engine {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.newest.as_ref().map(engine).unwrap_or_default();
        Engine {
            compacted: known.before.compacted + own.compacted,
            collected: known.before.collected + own.collected,
        }
    }

    /// What the dense drives' models say; `None` before the first answer of a server.
    pub(super) fn flash(&self) -> Option<Flash> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let view = known.newest.as_ref()?;
        let models = view.drives.iter().filter_map(|drive| drive.model.as_ref());
        Some(models.fold(Flash::default(), |sum, model| Flash {
            host: sum.host + model.host_bytes,
            media: sum.media + model.media_bytes,
            rmw_reads: sum.rmw_reads + model.rmw_reads,
            moved: sum.moved + model.gc_moved_bytes,
        }))
    }
}

fn engine(view: &PoolView) -> Engine {
    let counted = |name| view.counters.get(name).copied().unwrap_or(0);
    Engine {
        compacted: counted("compacted_blocks"),
        collected: counted("gc_blocks"),
    }
}

fn ask(socket: &std::path::Path) -> Option<PoolView> {
    let stream = client::connect(socket).ok()??;
    let pool = POOL.to_owned();
    match client::ask(stream, &Request::PoolStatus { pool }).ok()? {
        Reply::PoolStatus(view) if view.is_open => Some(view),
        _ => None,
    }
}
