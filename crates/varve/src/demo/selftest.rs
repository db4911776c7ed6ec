//! The self-test: overwrite the dense tier twice, verify, kill the server in the midst of more, verify.

use super::error::DemoError;
use super::server::Server;
use super::site::{DENSE, POOL, Site, VOLUMES};
use super::tenant::{Habit, Tenant};
use super::watch::{Engine, Flash, Watch};
use crate::load::{Direction, Order, Phase};
use crate::progress::Progress;
use crate::remote::Address;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_io::World;
use varve_units::{BLOCK_BYTES, Nanos};

/// Times the dense tier is written before the first verification.
pub(super) const OVERWRITES: f64 = 2.0;
/// Share of what the pool holds that both tenants use, per cent of each.
const SHARES: [u64; 2] = [60, 25];
/// How both overwrite: small writes, few blocks hot; and larger ones, all alike.
const HABITS: [Habit; 2] = [
    Habit {
        blocks: 1,
        depth: 32,
        order: Order::Zipf(0.9),
    },
    Habit {
        blocks: 4,
        depth: 8,
        order: Order::Uniform,
    },
];
/// How long the tenants overwrite before the server is killed, and after it is back.
const BEFORE_KILL: Nanos = Nanos::from_millis(1500);
const AFTER_KILL: Nanos = Nanos::from_millis(2500);
/// Between two looks at what others do.
const LOOK: Nanos = Nanos::from_millis(2);

/// What the self-test measured.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Bytes both tenants use.
    pub(super) used_bytes: u64,
    /// Bytes written by hosts until the dense tier was overwritten, the fill not counted.
    pub(super) written_bytes: u64,
    /// Write operations in that time.
    pub(super) operations: u64,
    /// That time.
    pub(super) elapsed: Nanos,
    /// Times the dense drives were written in full by the end.
    pub(super) overwrites: f64,
    /// Blocks read and compared.
    pub(super) verified_blocks: u64,
    /// Operations that returned what they must not, or failed while that was looked at.
    pub(super) verify_errors: u64,
    /// Other operations that failed.
    pub(super) io_errors: u64,
    /// The first failure, in words.
    pub(super) first_failure: Option<String>,
    /// From the start of the new server until hosts could connect.
    pub(super) recovery: Nanos,
    /// Associations that hosts lost.
    pub(super) associations_lost: u64,
    pub(super) engine: Engine,
    pub(super) flash: Flash,
}

/// A self-test under way.
pub(super) struct SelfTest {
    world: Rc<dyn World>,
    site: Rc<Site>,
    watch: Watch,
    tenants: Rc<[Tenant; 2]>,
    /// Somebody does not want to wait for the end.
    interrupted: Rc<Cell<bool>>,
}

impl SelfTest {
    /// Connects both tenants to their volumes.
    ///
    /// # Errors
    /// [`DemoError::Unreachable`], [`DemoError::Server`], what the pool's status needs.
    pub(super) async fn new(
        world: Rc<dyn World>,
        site: Rc<Site>,
        server: &Server,
        capacity_bytes: u64,
        interrupted: Rc<Cell<bool>>,
    ) -> Result<Self, DemoError> {
        let watch = Watch::start(&world, site.state().join("varve.sock"))?;
        let mut tenants = Vec::new();
        for (index, (volume, ..)) in VOLUMES.iter().enumerate() {
            let address = address_of(server, volume)?;
            let blocks = capacity_bytes * SHARES[index] / 100 / BLOCK_BYTES;
            let seed = 1000 * (index as u64 + 1);
            let tenant = Tenant::connect(&world, &address, blocks, HABITS[index], seed).await?;
            tenants.push(tenant);
        }
        let Ok(tenants) = <[Tenant; 2]>::try_from(tenants) else {
            unreachable!("as many tenants as volumes");
        };
        Ok(Self {
            world,
            site,
            watch,
            tenants: Rc::new(tenants),
            interrupted,
        })
    }

    /// Runs it; `server` may be another one afterwards.
    ///
    /// # Errors
    /// [`DemoError::Interrupted`], [`DemoError::Server`]. What hosts' operations found is in the outcome.
    pub(super) async fn run(self, server: Server) -> Result<(Outcome, Server), DemoError> {
        // A demonstration that goes on has drives with a past.
        let past = self.flash().await?;
        self.sweep(Direction::Write, "fill").await?;
        let before = self.flash().await?.host;
        let begun = self.world.now();
        let operations = self.overwrite_dense(before).await?;
        let elapsed = self.world.now().since(begun);
        let wrong_writes = self.failures();
        self.sweep(Direction::Read, "verify").await?;
        let verify_errors = self.failures() - wrong_writes;
        let (server, recovery) = self.kill_amid_writes(server).await?;
        let wrong = self.failures();
        self.sweep(Direction::Read, "verify").await?;
        let verify_errors = verify_errors + self.failures() - wrong;
        let flash = self.flash().await?;
        let overwrites = (flash.host - before) as f64 / dense_bytes() as f64;
        let verified_blocks = self.tenants.iter().map(Tenant::checked).sum();
        let used: u64 = self.tenants.iter().map(|tenant| tenant.blocks).sum();
        let bytes = |(tenant, count): (&Tenant, &u64)| tenant.operation_blocks() * count;
        let written: u64 = self.tenants.iter().zip(&operations).map(bytes).sum();
        let mut firsts = self.tenants.iter().filter_map(|tenant| tenant.failures().1);
        let outcome = Outcome {
            used_bytes: used * BLOCK_BYTES,
            written_bytes: written * BLOCK_BYTES,
            operations: operations.iter().sum(),
            elapsed,
            overwrites,
            verified_blocks,
            verify_errors,
            io_errors: self.failures() - verify_errors,
            first_failure: firsts.next(),
            recovery,
            associations_lost: self.tenants.iter().map(Tenant::losses).sum(),
            engine: self.watch.engine(),
            flash: flash.since(&past),
        };
        for tenant in &*self.tenants {
            tenant.close().await;
        }
        Ok((outcome, server))
    }

    fn failures(&self) -> u64 {
        self.tenants.iter().map(|tenant| tenant.failures().0).sum()
    }

    /// What the models say, as soon as the server has been asked.
    async fn flash(&self) -> Result<Flash, DemoError> {
        loop {
            self.go_on()?;
            if let Some(flash) = self.watch.flash() {
                return Ok(flash);
            }
            self.world.sleep(LOOK).await;
        }
    }

    fn go_on(&self) -> Result<(), DemoError> {
        if self.interrupted.get() {
            return Err(DemoError::Interrupted);
        }
        match self.watch.trouble() {
            Some(what) => Err(DemoError::Pool(what, self.site.log())),
            None => Ok(()),
        }
    }

    /// Asked by those who write and read: somebody wants the end, or there is nothing to be had any more.
    fn is_over(&self) -> impl Fn() -> bool + 'static {
        let (interrupted, watch) = (Rc::clone(&self.interrupted), self.watch.clone());
        move || interrupted.get() || watch.trouble().is_some()
    }

    /// Both tenants visit all their blocks once.
    async fn sweep(&self, direction: Direction, name: &'static str) -> Result<(), DemoError> {
        let progress = Progress::new(name, self.world.now());
        let progress = Rc::new(RefCell::new(progress));
        let run = |index: usize| {
            let (tenants, progress) = (Rc::clone(&self.tenants), Rc::clone(&progress));
            let is_over = self.is_over();
            self.world.run(async move {
                let tenant = &tenants[index];
                let blocks = tenant.blocks as f64;
                let look = move |phase: &Phase, now| {
                    let mut progress = progress.borrow_mut();
                    // One line for both: the larger one's.
                    if index == 0 && progress.is_due(now) {
                        progress.show(now, (phase.done() * phase.blocks) as f64 / blocks, "");
                    }
                    is_over()
                };
                tenant.sweep(direction, look).await;
            })
        };
        let (one, other) = (run(0), run(1));
        one.await;
        other.await;
        self.go_on()
    }

    /// Both tenants overwrite until `share` of what is aimed at reaches 1; tells the operations of each.
    async fn overwrite(&self, name: &'static str, share: impl Fn() -> f64 + 'static) -> [u64; 2] {
        let share = Rc::new(share);
        let progress = Progress::new(name, self.world.now());
        let progress = Rc::new(RefCell::new(progress));
        let run = |index: usize| {
            let (tenants, progress) = (Rc::clone(&self.tenants), Rc::clone(&progress));
            let (share, is_over) = (Rc::clone(&share), self.is_over());
            self.world.run(async move {
                let look = move |_: &Phase, now| {
                    let share = share();
                    let mut progress = progress.borrow_mut();
                    if index == 0 && progress.is_due(now) {
                        progress.show(now, share, "");
                    }
                    share >= 1.0 || is_over()
                };
                tenants[index].overwrite(look).await
            })
        };
        let (one, other) = (run(0), run(1));
        [one.await, other.await]
    }

    /// Overwrites until the array has written the dense drives [`OVERWRITES`] times since they had
    /// taken `before` bytes.
    async fn overwrite_dense(&self, before: u64) -> Result<[u64; 2], DemoError> {
        let (watch, aim) = (self.watch.clone(), OVERWRITES * dense_bytes() as f64);
        let share = move || {
            let flash = watch.flash();
            flash.map_or(0.0, |flash| flash.host.saturating_sub(before) as f64 / aim)
        };
        let operations = self.overwrite("write", share).await;
        self.go_on()?;
        Ok(operations)
    }

    /// Kills the server while both tenants write, starts another, and lets them write on.
    async fn kill_amid_writes(&self, server: Server) -> Result<(Server, Nanos), DemoError> {
        let ends = Rc::new(Cell::new(0.0));
        let share = Rc::clone(&ends);
        let begun = self.world.now();
        let flow = async {
            self.world.sleep(BEFORE_KILL).await;
            self.watch.note_killed();
            let server = self.replace(server).await;
            if server.is_ok() {
                self.world.sleep(AFTER_KILL).await;
            }
            ends.set(1.0);
            server
        };
        let clock = Rc::clone(&self.world);
        let whole = BEFORE_KILL.0 + 2 * AFTER_KILL.0;
        let share = move || {
            let spent = clock.now().since(begun).0 as f64 / whole as f64;
            spent.min(0.99) + share.get()
        };
        let writes = self.overwrite("kill", share);
        let (server, _) = both(flow, writes).await;
        self.go_on()?;
        let server = server?;
        let recovery = server.started_in;
        Ok((server, recovery))
    }

    /// SIGKILL, and another server.
    async fn replace(&self, server: Server) -> Result<Server, DemoError> {
        server.kill(&*self.world).await?;
        Server::start(&*self.world, &self.site).await
    }
}

/// Bytes of all dense drives.
pub(super) const fn dense_bytes() -> u64 {
    DENSE.0 as u64 * DENSE.1
}

/// Where hosts find a volume of the pool.
fn address_of(server: &Server, volume: &str) -> Result<Address, DemoError> {
    let serving = &server.serving;
    let store = format!("{POOL}/{volume}");
    let shown = serving.namespaces.iter().find(|shown| shown.store == store);
    let io = serving.listeners.iter().find(|open| !open.is_discovery);
    let (Some(shown), Some(io)) = (shown, io) else {
        return Err(DemoError::Server(format!("it does not serve {store}")));
    };
    let (address, nqn, nsid) = (&io.address, &serving.nqn, shown.nsid);
    let text = format!("nvme+tcp://{address}/{nqn}?nsid={nsid}");
    text.parse().map_err(DemoError::Server)
}

/// Both futures' outputs, run beside one another.
async fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|context| {
        use std::task::Poll;
        if first.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(context)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(context)
        {
            second = Some(output);
        }
        match (first.is_some(), second.is_some()) {
            (true, true) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    (
        first.expect("both are ready"),
        second.expect("both are ready"),
    )
}
