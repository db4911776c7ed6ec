//! Looks at drives that may not answer, beside the reactor that serves hosts.
//!
//! **Invariants**: a path is looked at once at a time, so a drive that hangs holds one thread, however often
//! somebody asks; whoever asks waits for a bounded time.

use crate::pools::Pools;
use crate::scan::{Scan, scan, tell_apart};
use crate::within::within;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use varve_hostio::{Io, Magic, Preflight, Wanted, aside, preflight};
use varve_io::{Event, Flow, World};
use varve_units::Nanos;

/// How long a look may take that something is begun by. Arbitrary: disks that stand still take some 10 s.
const PATIENCE: Nanos = Nanos::from_secs(30);
/// How long one may take that tells how drives fare. Arbitrary: who collects metrics often waits for 10 s. A look goes
/// on, so the next one may find what it found.
const GLANCE: Nanos = Nanos::from_secs(5);

/// Looks that have not ended.
#[derive(Default)]
pub(crate) struct Looks {
    under_way: RefCell<BTreeSet<PathBuf>>,
    ended: Event,
}

/// One that is asked for.
struct Look {
    world: Rc<dyn World>,
    io: Io,
    path: PathBuf,
    patience: Nanos,
}

impl Looks {
    async fn take(
        self: Rc<Self>,
        look: Look,
        scan: impl FnOnce(&Path) -> Scan + Send + 'static,
    ) -> Scan {
        let Look {
            world,
            io,
            path,
            patience,
        } = look;
        let until = world.now() + patience;
        while self.under_way.borrow().contains(&path) {
            let ended = within(&*world, until, self.ended.listen()).await;
            if ended.is_none() {
                return Scan::failed(path, late(patience));
            }
        }
        self.under_way.borrow_mut().insert(path.clone());
        let at = path.clone();
        let found = world.run(async move {
            let own = at.clone();
            let found = aside(io, move || scan(&own)).await;
            self.under_way.borrow_mut().remove(&at);
            self.ended.notify();
            found
        });
        let found = within(&*world, until, found).await;
        let found = found.unwrap_or_else(|| Err(late(patience)));
        found.unwrap_or_else(|error| Scan::failed(path, error))
    }
}

impl Pools {
    /// [`scan`] of a path.
    pub(crate) fn scan(&self, path: &Path) -> Flow<'static, Scan> {
        self.scan_within(path, PATIENCE)
    }

    fn scan_within(&self, path: &Path, patience: Nanos) -> Flow<'static, Scan> {
        let (world, io, looks) = (&self.world, &self.io, &self.looks);
        let look = Look {
            world: Rc::clone(world),
            io: io.clone(),
            path: path.to_owned(),
            patience,
        };
        Box::pin(Rc::clone(looks).take(look, scan))
    }

    /// [`scan`] of several paths, beside one another.
    pub(crate) async fn scan_each<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Vec<Scan> {
        self.scan_each_within(paths, PATIENCE).await
    }

    /// The same for whoever only wants to know how drives fare.
    pub(crate) async fn glance_each<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Vec<Scan> {
        self.scan_each_within(paths, GLANCE).await
    }

    async fn scan_each_within<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a PathBuf>,
        patience: Nanos,
    ) -> Vec<Scan> {
        let look = |path: &PathBuf| self.world.run(self.scan_within(path, patience));
        let looks: Vec<_> = paths.into_iter().map(look).collect();
        let mut scans = Vec::with_capacity(looks.len());
        for look in looks {
            scans.push(look.await);
        }
        scans
    }

    /// As [`Self::scan_each`]. Those that lead to a drive which an earlier one has led to come apart, with that one.
    pub(crate) async fn scan_all(&self, paths: &[PathBuf]) -> (Vec<Scan>, Vec<(PathBuf, PathBuf)>) {
        tell_apart(self.scan_each(paths).await)
    }

    /// [`preflight`]; it looks through what other processes have open too.
    ///
    /// # Errors
    /// There can be no thread for it; it takes longer than [`PATIENCE`].
    pub(crate) async fn preflight(
        &self,
        wanted: Vec<Wanted>,
        magics: &'static [Magic],
    ) -> io::Result<Preflight> {
        let look = aside(self.io.clone(), move || preflight(&wanted, magics));
        let (until, look) = (self.world.now() + PATIENCE, self.world.run(look));
        let found = within(&*self.world, until, look).await;
        found.unwrap_or_else(|| Err(late(PATIENCE)))
    }
}

fn late(patience: Nanos) -> io::Error {
    let what = format!("does not answer within {} s", patience.0 / 1_000_000_000);
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use varve_hostio::Executor;

    const SHORT: Nanos = Nanos::from_secs(1);

    /// A look that hangs until it is let go.
    fn hung(gate: Receiver<()>) -> impl FnOnce(&Path) -> Scan + Send {
        move |path| {
            let _ = gate.recv();
            scan(path)
        }
    }

    /// A drive that hangs holds up nobody but who asks for it, and those not for ever; it is not looked at again
    /// before it has answered.
    #[test]
    fn a_drive_that_hangs_is_looked_at_once() {
        let executor = Executor::new();
        let world = executor.world();
        let looks: Rc<Looks> = Rc::default();
        let outcome = executor.run(async move {
            let io = Io::of(&*world).expect("io_uring");
            let path = std::env::current_exe().expect("a file");
            let look = |path: &Path, patience| Look {
                world: Rc::clone(&world),
                io: io.clone(),
                path: path.to_owned(),
                patience,
            };
            let (open, gate) = channel();
            let first = world.run(Rc::clone(&looks).take(look(&path, SHORT), hung(gate)));
            let refuse = |_: &Path| -> Scan { panic!("one look at a time") };
            let second = world.run(Rc::clone(&looks).take(look(&path, SHORT), refuse));
            // Another drive answers meanwhile: what hangs does so until the gate is opened.
            let other = Path::new("/dev/null/nothing");
            let other = Rc::clone(&looks).take(look(other, PATIENCE), scan).await;
            let error = other.found.expect_err("there is no such place");
            assert_ne!(error.kind(), io::ErrorKind::TimedOut);
            for late in [first.await, second.await] {
                let error = late.found.expect_err("nothing came of it");
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            }
            let third = world.run(Rc::clone(&looks).take(look(&path, PATIENCE), scan));
            open.send(()).expect("it still looks");
            let found = third.await;
            assert!(found.bytes() > Some(0), "{found:?}");
            assert!(looks.under_way.borrow().is_empty());
        });
        outcome.expect("it ends");
    }

    #[test]
    fn a_look_that_panics_is_told() {
        let executor = Executor::new();
        let world = executor.world();
        let outcome = executor.run(async move {
            let io = Io::of(&*world).expect("io_uring");
            let failed: io::Result<()> = aside(io, || panic!("on purpose")).await;
            failed.expect_err("nothing came of it")
        });
        assert!(outcome.expect("it ends").to_string().contains("panicked"));
    }
}
