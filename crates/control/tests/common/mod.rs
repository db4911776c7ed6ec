//! Scratch directories, and the control plane on them.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use varve_control::{
    Config, CreatePool, CreateVolume, DrivePath, Exit, Failure, Finding, Home, JobState, JobView,
    Pools,
};
use varve_hostio::Executor;
use varve_io::{Blocks, World};

pub const MIB: u64 = 1 << 20;

/// A directory that goes with all it holds.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("control-{}-{number}", std::process::id());
        // In memory, where `make test` found some to spare.
        let root = std::env::var_os("VARVE_TEST_DIR");
        let path = root
            .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
            .join(name);
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Drives that are to be made here: `count` of `mib` MiB.
    pub fn drives(&self, name: &str, count: usize, mib: u64) -> Vec<DrivePath> {
        let drive = |index| DrivePath {
            path: self.path(&format!("{name}{index}")),
            create_bytes: Some(mib * MIB),
        };
        (0..count).map(drive).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a session of the control plane whose state is at `home`.
pub fn session<T, Flow>(home: &Path, flow: impl FnOnce(Rc<Pools>) -> Flow) -> T
where
    T: 'static,
    Flow: Future<Output = T> + 'static,
{
    session_beside(home, Config::default(), |_, pools| flow(pools))
}

/// The same, for what takes its time.
pub fn session_beside<T, Flow>(
    home: &Path,
    config: Config,
    flow: impl FnOnce(Rc<dyn World>, Rc<Pools>) -> Flow,
) -> T
where
    T: 'static,
    Flow: Future<Output = T> + 'static,
{
    let executor = Executor::new();
    let world: Rc<dyn World> = executor.world();
    let home = Home::open(home).expect("a state directory");
    let pools = Pools::new(Rc::clone(&world), home, config).expect("a control plane");
    let flow = flow(world, pools);
    executor.run(flow).expect("the session ends")
}

/// Runs two flows side by side.
pub async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(ended) = one.as_mut().poll(context)
        {
            first = Some(ended);
        }
        if second.is_none()
            && let Poll::Ready(ended) = other.as_mut().poll(context)
        {
            second = Some(ended);
        }
        match first.is_some() && second.is_some() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    (first.expect("it ended"), second.expect("it ended"))
}

/// A job, once it has ended.
pub async fn ended(pools: &Pools, mut job: JobView) -> JobView {
    while job.state == JobState::Running {
        job = pools.wait_job(job.job, job.done_bytes).await.unwrap();
    }
    job
}

/// Two fast and three dense drives in a scratch directory.
pub fn new_pool(scratch: &Scratch, name: &str) -> CreatePool {
    CreatePool {
        pool: name.to_owned(),
        fast: scratch.drives(&format!("{name}-fast"), 2, 64),
        dense: scratch.drives(&format!("{name}-dense"), 3, 128),
        protect: None,
        over_provision: None,
        dense_model: None,
        overwrite: false,
        dry_run: false,
    }
}

/// A new pool `p`, closed again; its drives, fast ones first.
pub fn closed_pool(scratch: &Scratch, home: &Path) -> Vec<PathBuf> {
    let wanted = new_pool(scratch, "p");
    let all = paths(&wanted);
    session(home, |pools| async move {
        pools.create_pool(&wanted).await.unwrap();
        pools.close_all().await;
    });
    all
}

/// Why a pool was refused for one drive that counts as missing.
pub fn one_in_the_way(refused: &Failure) -> &Finding {
    assert_eq!(
        (refused.exit, &*refused.code),
        (Exit::Refused, "drives-missing"),
        "{refused:?}"
    );
    let [told] = &refused.findings[..] else {
        panic!("one drive is in the way: {refused:?}");
    };
    told
}

pub fn new_volume(pool: &str, name: &str, mib: u64) -> CreateVolume {
    CreateVolume {
        pool: pool.to_owned(),
        volume: name.to_owned(),
        bytes: mib * MIB,
        tenant: 7,
    }
}

/// Blocks filled with a byte each.
pub fn pattern(first: u64, count: usize, seed: u64) -> Blocks {
    let mut blocks = Blocks::zeroed(count);
    for (index, block) in blocks.bytes_mut().chunks_exact_mut(4096).enumerate() {
        let mut state = seed ^ (first + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for word in block.chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    blocks
}

/// Paths of all drives, fast ones first.
pub fn paths(wanted: &CreatePool) -> Vec<PathBuf> {
    let drives = wanted.fast.iter().chain(&wanted.dense);
    drives.map(|drive| drive.path.clone()).collect()
}

/// A small file system in memory.
pub struct Mount(PathBuf);

impl Mount {
    /// `None`, with the reason printed, where that is not permitted.
    pub fn tmpfs(at: &Path, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(at).ok()?;
        let size = format!("size={bytes}");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                println!(
                    "skipped: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                None
            }
            Err(error) => {
                println!("skipped: mount: {error}");
                None
            }
        }
    }
}

impl Mount {
    /// Lets nobody write to it any more.
    pub fn freeze(&self) {
        let frozen = std::process::Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.0)
            .status();
        assert!(frozen.expect("mounted before").success());
    }
}

/// A block device over a file that can be kept from taking writes.
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// `None`, with the reason printed, where that is not permitted.
    pub fn over(file: &Path, bytes: u64) -> Option<Self> {
        std::fs::File::create(file).ok()?.set_len(bytes).ok()?;
        let made = std::process::Command::new("losetup")
            .args(["--find", "--show", "--sector-size", "4096"])
            .arg(file)
            .output();
        match made {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8_lossy(&output.stdout);
                Some(Self(path.trim().into()))
            }
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                println!("skipped: {}", why.trim());
                None
            }
            Err(error) => {
                println!("skipped: losetup: {error}");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// From now on writes fail, or no longer do.
    pub fn refuse_writes(&self, is_refusing: bool) {
        let option = if is_refusing { "--setro" } else { "--setrw" };
        let done = std::process::Command::new("blockdev")
            .arg(option)
            .arg(&self.0)
            .status();
        assert!(done.expect("util-linux").success());
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Who has it next is not to find it as a test that failed left it.
        let _ = std::process::Command::new("blockdev")
            .arg("--setrw")
            .arg(&self.0)
            .output();
        let _ = std::process::Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .output();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.0)
            .output();
    }
}
