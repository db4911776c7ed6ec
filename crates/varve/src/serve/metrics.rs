//! Counters over HTTP, as Prometheus reads them.
//!
//! HTTP is served by a thread of its own, like the control plane's. It asks the reactor, which sleeps in
//! its ring, by a bell and a queue; the reactor answers with the text of that moment. Connections are
//! few and short: see `door`.
//!
//! **Not here**: what is told (`exposition`).

use super::door::{Door, GUESTS_MAX};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::sync::oneshot;
use varve_hostio::{Io, Stream};
use varve_io::World;

/// Media type of the text (Prometheus text exposition format 0.0.4).
const MEDIA_TYPE: &str = "text/plain; version=0.0.4";
/// Questions that the reactor has not taken. More than guests there are at once are of guests that have left.
const QUESTIONS_MAX: usize = GUESTS_MAX;
/// Bells taken at once: all there are, one for each question and for each that was taken before its bell.
const BELLS_MAX: usize = 2 * QUESTIONS_MAX;

/// Where an answer goes.
type Answer = oneshot::Sender<String>;

/// The end that asks.
#[derive(Clone)]
struct Asker {
    calls: SyncSender<Answer>,
    bell: Arc<UnixStream>,
}

impl Asker {
    /// Asks. `None` if the reactor has questions enough that it does not answer, or has ended.
    fn ask(&self) -> Option<oneshot::Receiver<String>> {
        let (answer, answered) = oneshot::channel();
        self.calls.try_send(answer).ok()?;
        (&*self.bell).write_all(&[0]).ok()?;
        Some(answered)
    }
}

/// A port that is taken; nobody is answered yet.
pub(super) struct MetricsPort(TcpListener);

impl MetricsPort {
    /// # Errors
    /// The system's.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Answers from now on with what `text` gives. Gives the port's address.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(
        self,
        world: &Rc<dyn World>,
        text: impl AsyncFn() -> String + 'static,
    ) -> io::Result<SocketAddr> {
        let address = self.0.local_addr()?;
        let (near, far) = Stream::pair(Io::of(&**world).map_err(io::Error::other)?)?;
        let (sender, receiver) = sync_channel(QUESTIONS_MAX);
        let asker = Asker {
            calls: sender,
            bell: Arc::new(far),
        };
        world.spawn(Box::pin(answer(near, receiver, text)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = self.0;
        let run = move || {
            runtime.block_on(async move {
                let router = Router::new().route("/metrics", get(metrics));
                // It ends with the process.
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    let door = Door::new(listener);
                    let _ = axum::serve(door, router.with_state(asker)).await;
                }
            });
        };
        std::thread::Builder::new()
            .name("varve-metrics".to_owned())
            .spawn(run)?;
        Ok(address)
    }
}

async fn metrics(State(asker): State<Asker>) -> Response {
    let Some(answered) = asker.ask() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    match answered.await {
        Ok(text) => {
            // One answer a connection: it would be ended before the next question anyway.
            let headers = [
                (header::CONTENT_TYPE, MEDIA_TYPE),
                (header::CONNECTION, "close"),
            ];
            (headers, text).into_response()
        }
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Answers on the reactor.
async fn answer(bell: Stream, calls: Receiver<Answer>, text: impl AsyncFn() -> String) {
    let mut buffer = Vec::with_capacity(BELLS_MAX);
    while let Ok((count, mut rung)) = bell.receive(buffer).await {
        if count == 0 {
            return;
        }
        rung.clear();
        buffer = rung;
        // Those who wait share one look: it asks every slice of every map.
        let mut waiting: Vec<Answer> = calls.try_iter().collect();
        waiting.retain(|answer| !answer.is_closed());
        if waiting.is_empty() {
            continue;
        }
        let text = text().await;
        for answer in waiting {
            // Whoever asked may have left.
            let _ = answer.send(text.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpStream;
    use std::time::Duration;
    use varve_hostio::Executor;

    /// While the reactor does not answer few questions are kept, and no bell waits for room; when it does,
    /// those who are still there are answered, and new ones.
    #[test]
    fn few_questions_are_kept() {
        let executor = Executor::new();
        let world = executor.world();
        let (near, far) = Stream::pair(Io::of(&*world).expect("a ring")).expect("a pair");
        far.set_nonblocking(true).expect("not to wait");
        let (calls, receiver) = sync_channel(QUESTIONS_MAX);
        let asker = Asker {
            calls,
            bell: Arc::new(far),
        };
        let kept = asker.ask().expect("a first question");
        let asked = (0..100_000).filter_map(|_| asker.ask()).count();
        assert_eq!(asked, QUESTIONS_MAX - 1);
        world.spawn(Box::pin(answer(near, receiver, async || "x".to_owned())));
        let flow = async move {
            assert_eq!(kept.await.as_deref(), Ok("x"));
            let next = asker.ask().expect("room again");
            assert_eq!(next.await.as_deref(), Ok("x"));
        };
        executor.run(flow).expect("it ends");
    }

    /// Half a request, or none, ends by itself, and keeps nobody else from an answer.
    #[test]
    fn half_a_request_ends() {
        let executor = Executor::new();
        let world = executor.world();
        let any = "127.0.0.1:0".parse().expect("an address");
        let port = MetricsPort::bind(any).expect("a port");
        let to = port
            .open(&world, async || "varve_x 1\n".to_owned())
            .expect("open");
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(to).expect("a listener");
            let patience = Some(Duration::from_secs(30));
            stream.set_read_timeout(patience).expect("a timeout");
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        };
        let [mut half, mut silent] = ["GET /metrics HTTP/1.1\r\nHost: v", ""].map(ask);
        let whole = ask("GET /metrics HTTP/1.1\r\nHost: varve\r\n\r\n");
        executor
            .run(async move {
                // The reactor is what answers: it has to be left alone until it did.
                let (far, mut text) = (whole, String::new());
                far.set_nonblocking(true).expect("not to wait");
                while !text.contains("varve_x 1") {
                    world.sleep(varve_units::Nanos::from_millis(5)).await;
                    let _ = (&far).read_to_string(&mut text);
                }
                assert!(text.contains("connection: close"), "{text}");
            })
            .expect("it ends");
        for stream in [&mut half, &mut silent] {
            let mut rest = Vec::new();
            let end = stream.read_to_end(&mut rest).map_err(|error| error.kind());
            let is_over = matches!(end, Ok(_) | Err(io::ErrorKind::ConnectionReset));
            assert!(is_over, "{end:?}");
        }
    }
}
