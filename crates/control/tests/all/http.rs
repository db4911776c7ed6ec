//! The same control plane over a unix socket.

use crate::common::{MIB, Scratch, new_pool, new_volume};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use varve_control::{
    Config, Event, Exit, Home, Pools, ReplaceDrive, Reply, Request, http, line, local,
};
use varve_hostio::Executor;

/// A daemon's control plane on this thread, until a volume named `end` is made.
fn daemon(home: &Path, told: impl FnOnce() + 'static) -> Vec<String> {
    let executor = Executor::new();
    let world = executor.world();
    let home = Home::open(home).unwrap();
    let run = async move {
        let _held = home.hold().unwrap();
        assert!(home.hold().is_err(), "one daemon in a state directory");
        let pools = Pools::new(Rc::clone(&world), home.clone(), Config::default()).unwrap();
        let watch = pools.watch();
        let (caller, line) = line(&*world).unwrap();
        world.spawn(Box::pin(Rc::clone(&pools).serve(line)));
        let server = http::listen(&home, caller).unwrap();
        told();
        let mut seen = Vec::new();
        loop {
            let event = watch.next().await;
            let is_end = matches!(&event, Event::VolumeCreated(v) if v.info().name == "end");
            seen.push(
                format!("{event:?}")
                    .split(['(', ' '])
                    .next()
                    .unwrap()
                    .to_owned(),
            );
            if is_end {
                break;
            }
        }
        // The last command is answered now: the server lets that through before it ends.
        drop(watch);
        server.end(&*world).await;
        for (_, outcome) in pools.close_all().await {
            outcome.unwrap();
        }
        seen
    };
    executor.run(run).unwrap()
}

/// Lets the daemon end also if the test fails.
struct EndDaemon<'a>(&'a Path);

impl Drop for EndDaemon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = local::ask(
                self.0,
                Request::VolumeCreate(new_volume("p", "end", 1)),
                |_| {},
            );
        }
    }
}

fn curl(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a field is for that is not known may have been to keep something from harm.
fn refuses_unknown_fields(socket: &Path) {
    for body in [
        r#"{"schema_version":1,"kind":"PoolDestroy","pool":"p","with_volumes":true,"dry_run":true}"#,
        r#"{"schema_version":1,"kind":"VolumeCreate","pool":"p","volume":"w","bytes":4096,"tenant":0,"thick":true}"#,
    ] {
        let head = "POST /v1/request HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close";
        let length = body.len();
        let answer = curl(
            socket,
            &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"),
        );
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("unknown field"),
            "{answer}"
        );
    }
}

#[test]
fn commands_reach_a_daemon_and_fail_there_as_they_do_here() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let (pool, spare) = (new_pool(&scratch, "p"), scratch.drives("spare", 1, 128));
    let (ready, is_ready) = channel();
    let socket = home.join("varve.sock");
    std::thread::scope(|scope| {
        let serving = scope.spawn({
            let home = home.clone();
            move || daemon(&home, move || ready.send(()).unwrap())
        });
        is_ready.recv().unwrap();
        let _end = EndDaemon(&home);
        let ask = |request| local::ask(&home, request, |_| {});
        let made = ask(Request::PoolCreate(pool)).unwrap();
        assert!(matches!(made, Reply::PoolPlan(plan) if plan.is_made));
        ask(Request::VolumeCreate(new_volume("p", "v", 50))).unwrap();
        let list = ask(Request::VolumeList { pool: None }).unwrap();
        assert!(matches!(list, Reply::VolumeList { volumes, .. } if volumes[0].bytes == 50 * MIB));
        let status = Request::PoolStatus {
            pool: "p".to_owned(),
        };
        let status = ask(status).unwrap();
        assert!(matches!(status, Reply::PoolStatus(pool) if pool.is_open));
        let code = |request| {
            let failure = ask(request).unwrap_err();
            (failure.exit, failure.code)
        };
        let twice = code(Request::VolumeCreate(new_volume("p", "v", 50)));
        assert_eq!(twice, (Exit::Conflict, "volume-exists".to_owned()));
        let check = Request::PoolCheck {
            pool: "p".to_owned(),
        };
        assert_eq!(code(check), (Exit::Conflict, "pool-served".to_owned()));
        let replace = ReplaceDrive {
            pool: "p".to_owned(),
            drive: "dense1".to_owned(),
            new: spare[0].clone(),
            give_up: true,
            from_others: true,
            overwrite: false,
        };
        let replaced = ask(Request::DriveReplace(replace)).unwrap();
        assert!(matches!(replaced, Reply::Job(job) if job.done_bytes == job.total_bytes));
        let answer = curl(
            &socket,
            "GET /v1/pools/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        assert!(
            answer.starts_with("HTTP/1.1 404") && answer.contains("\"no-pool\""),
            "{answer}"
        );
        let answer = curl(
            &socket,
            "POST /v1/request HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        );
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        refuses_unknown_fields(&socket);
        ask(Request::VolumeCreate(new_volume("p", "end", 1))).unwrap();
        let seen = serving.join().unwrap();
        assert_eq!(seen, ["PoolOpened", "VolumeCreated", "VolumeCreated"]);
    });
    assert!(!socket.exists());
    // Nobody listens any more: the same command does it itself.
    let check = Request::PoolCheck {
        pool: "p".to_owned(),
    };
    let checked = local::ask(&home, check, |_| {}).unwrap();
    assert!(matches!(checked, Reply::PoolCheck(check) if check.agrees));
}
