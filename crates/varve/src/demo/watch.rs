//! What the server says of the pool, asked now and then by a flow of its own.

use super::error::DemoError;
use super::site::POOL;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use varve_control::{PoolView, Reply, Request, http::client};
use varve_hostio::{Endpoint, Io, Outgoing, Stream};
use varve_io::World;
use varve_units::Nanos;

/// Between two questions.
const PAUSE: Nanos = Nanos::from_millis(100);
/// Room for what is received at a time.
const RECEIVE_BYTES: usize = 16 << 10;

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

impl Flash {
    /// What was done since `before`.
    pub(super) const fn since(&self, before: &Self) -> Self {
        Self {
            host: self.host - before.host,
            media: self.media - before.media,
            rmw_reads: self.rmw_reads - before.rmw_reads,
            moved: self.moved - before.moved,
        }
    }
}

/// What is known of the pool; copies share it.
#[derive(Clone, Default)]
pub(super) struct Watch(Rc<RefCell<Known>>);

impl Watch {
    /// Asks whoever listens at `socket` until the last copy is dropped.
    ///
    /// # Errors
    /// [`DemoError::NoIo`].
    pub(super) fn start(world: &Rc<dyn World>, socket: PathBuf) -> Result<Self, DemoError> {
        let io = Io::of(&**world).map_err(DemoError::NoIo)?;
        let (watch, clock) = (Self::default(), Rc::clone(world));
        let known = Rc::downgrade(&watch.0);
        let endpoint = Endpoint::Unix(socket);
        world.spawn(Box::pin(async move {
            while known.strong_count() > 0 {
                let view = ask(io.clone(), &endpoint).await;
                if let (Some(known), Some(view)) = (known.upgrade(), view) {
                    known.borrow_mut().newest = Some(view);
                }
                clock.sleep(PAUSE).await;
            }
        }));
        Ok(watch)
    }

    /// The server was killed: what it counted is kept, its successor counts from zero.
    pub(super) fn note_killed(&self) {
        let mut known = self.0.borrow_mut();
        if let Some(view) = known.newest.take() {
            let own = engine(&view);
            known.before.compacted += own.compacted;
            known.before.collected += own.collected;
        }
    }

    /// What engines counted, of all lives; those of a killed one up to a moment before.
    pub(super) fn engine(&self) -> Engine {
        let known = self.0.borrow();
        let own = known.newest.as_ref().map(engine).unwrap_or_default();
        Engine {
            compacted: known.before.compacted + own.compacted,
            collected: known.before.collected + own.collected,
        }
    }

    /// What went wrong with the pool: nothing may, here.
    pub(super) fn trouble(&self) -> Option<String> {
        let known = self.0.borrow();
        let view = known.newest.as_ref()?;
        if let Some(why) = &view.stopped {
            return Some(format!("the pool has stopped: {why}"));
        }
        let mut drives = view.drives.iter();
        let lost = drives.find(|drive| drive.state != "live")?;
        Some(format!(
            "drive {} of the pool is {}",
            lost.drive, lost.state
        ))
    }

    /// What the dense drives' models say; `None` before the first answer of a server.
    pub(super) fn flash(&self) -> Option<Flash> {
        let known = self.0.borrow();
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
        compacted: counted("compacted_blocks") + counted("bypassed_blocks"),
        collected: counted("gc_blocks"),
    }
}

/// The pool's state; `None` if nobody answers, or the pool is not open there.
async fn ask(io: Io, endpoint: &Endpoint) -> Option<PoolView> {
    let stream = Stream::connect(io, endpoint).await.ok()?;
    let pool = POOL.to_owned();
    let mut request = Outgoing::new();
    request.push(client::encode(&Request::PoolStatus { pool }));
    stream.send(request).await.ok()?;
    let mut answer = Vec::new();
    loop {
        answer.reserve(RECEIVE_BYTES);
        let (count, filled) = stream.receive(answer).await.ok()?;
        answer = filled;
        if count == 0 {
            break;
        }
    }
    match client::decode(&answer).ok()? {
        Reply::PoolStatus(view) if view.is_open => Some(view),
        _ => None,
    }
}
