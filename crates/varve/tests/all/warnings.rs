//! What a pool suffers, as hosts of `varve serve` hear of it.

use crate::daemon::{Daemon, run, run_varve, varve};
use crate::scripted::{Host, pattern};
use crate::serve_pools::{Scratch, metric};
use std::io::Write;
use std::process::Command;
use varve_units::{BLOCK, Nanos};

/// Blocks of a write, and writes: more than the fast tier has room for.
const STEP: u64 = 128;
const WRITES: u64 = 200;
/// How long a warning may take to go. Far more than it does.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// A file system in memory, with room for a drive of 128 MiB and little more.
struct Mount(String);

impl Mount {
    /// `None`, with the reason printed, where that is not permitted.
    fn new(at: String) -> Option<Self> {
        std::fs::create_dir_all(&at).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=132M", "tmpfs", &at]);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(at)),
            other => {
                println!("skipped: mount: {other:?}");
                None
            }
        }
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(format!("{}/filler", self.0)).expect("a file");
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

/// A dense drive that is lost sets the bit and is told to who asked for that, whatever else is served; with another drive
/// in its place the bit goes.
#[test]
fn a_lost_drive_is_a_critical_warning() {
    let scratch = Scratch::new("warnings");
    let Some(small) = Mount::new(scratch.path("small")) else {
        return;
    };
    let state = scratch.path("state");
    scratch.tank(&state, ["small/d0", "d1", "d2"]);
    let (output, text) = run_varve(&["volume", "create", "tank/v", "100M", "--state", &state]);
    assert!(output.status.success(), "{text}");
    let config = scratch.path("varve.toml");
    // Beside tests that flush as much as drives take a pool is closed for longer than the usual 20 s.
    let text = format!(
        "state_dir = '{state}'\n\
         drain_s = 300\n\
         metrics = '127.0.0.1:0'\n\
         [[listener]]\n\
         address = '127.0.0.1:0'\n"
    );
    std::fs::write(&config, &text).expect("a file");
    let daemon = Daemon::spawn(varve(&["serve", "--json", "--config", &config]));
    let nqn = daemon.serving["nqn"].as_str().expect("a name").to_owned();
    let metrics = daemon.serving["metrics"].as_str().expect("an address");
    let (to, metrics) = (daemon.address(0), metrics.to_owned());
    let spare = scratch.path("spare:128M");
    run(async move |world, io| {
        let mut admin = Host::admin_of(&io, to, &nqn).await;
        admin.enable_event_bits(0b1100).await;
        assert_eq!(admin.critical_warning().await, 0);
        let asked = admin.ask_for_event().await;
        small.fill();
        let mut queue = admin.queue(&io, to, 1, 1).await;
        let data = pattern(1, BLOCK * STEP as usize);
        for at in 0..WRITES {
            assert_eq!(queue.write(at * STEP, &data).await, 0, "write {at}");
        }
        let end = world.now() + PATIENCE;
        while metric(&metrics, "varve_critical_warning ") != 4 {
            assert!(world.now() < end, "the drive was lost");
            world.sleep(Nanos::from_millis(100)).await;
        }
        assert_eq!(admin.told_event().await, (asked, 0x0002_0001));
        assert_eq!(admin.critical_warning().await, 4);
        let replace = ["drive", "replace", "tank/dense0", &spare, "--state", &state];
        let (output, text) = run_varve(&replace);
        assert!(output.status.success(), "{text}");
        let end = world.now() + PATIENCE;
        while admin.critical_warning().await != 0 {
            assert!(world.now() < end, "the drive was replaced");
            world.sleep(Nanos::from_millis(100)).await;
        }
    });
    daemon.signal("-TERM");
    let (status, errors) = daemon.end();
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(errors.contains("drive dense0"), "{errors}");
}
