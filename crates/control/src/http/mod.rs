//! HTTP on a unix socket: the administrator's way into a daemon.
//!
//! `POST /v1/request` takes the document of a [`Request`] and gives that of a [`Reply`], or of a
//! failure with a status that fits it. For `curl` there are also `GET /v1/pools`, `/v1/pools/NAME`,
//! `/v1/volumes`, `/v1/drives` and `/v1/jobs`.
//!
//! **Invariant**: nothing here touches a pool; whoever may connect is who may write to the state
//! directory's socket (the directory and the socket are its owner's alone).

pub mod client;

use crate::document::{Document, of_outcome};
use crate::error::ControlError;
use crate::failure::Failure;
use crate::home::Home;
use crate::line::Caller;
use crate::request::{Reply, Request, SCHEMA_VERSION};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use varve_io::World;
use varve_units::Nanos;

/// How long answers under way may take when the server ends.
const DRAIN: Duration = Duration::from_secs(2);

/// Between looks at a server that is to end.
const END_PAUSE: Nanos = Nanos::from_millis(1);

/// A server on a thread of its own. When dropped it ends without the answers under way.
pub struct Server {
    path: PathBuf,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Listens in the state directory. To be called by whoever holds it ([`Home::hold`]): a socket that
/// nobody answers any more is taken away.
///
/// # Errors
/// The system's, or somebody answers there.
pub fn listen(home: &Home, caller: Caller) -> io::Result<Server> {
    let path = home.socket();
    if UnixStream::connect(&path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    serve(caller, listener, path)
}

/// Serves on a socket that listens.
///
/// # Errors
/// The system's.
pub fn serve(caller: Caller, listener: UnixListener, path: PathBuf) -> io::Result<Server> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (end, ended) = oneshot::channel::<()>();
    let run = move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::UnixListener::from_std(listener) else {
                return;
            };
            let (stop, stopped) = oneshot::channel::<()>();
            let wait = async move {
                let _ = stopped.await;
            };
            let serving = axum::serve(listener, router(caller)).with_graceful_shutdown(wait);
            let serving = tokio::spawn(async move { serving.await });
            // Ends also if the server was dropped without a word.
            let _ = ended.await;
            drop(stop);
            let _ = tokio::time::timeout(DRAIN, serving).await;
        });
    };
    let thread = Builder::new().name("varve-api".to_owned()).spawn(run)?;
    Ok(Server {
        path,
        end: Some(end),
        thread: Some(thread),
    })
}

impl Server {
    /// Takes no more commands; ends when those under way are answered, or were given up. The reactor
    /// goes on meanwhile, since it is the one that answers.
    pub async fn end(mut self, world: &dyn World) {
        drop(self.end.take());
        while self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            world.sleep(END_PAUSE).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn router(caller: Caller) -> Router {
    Router::new()
        .route("/v1/request", post(request))
        .route(
            "/v1/pools",
            get(async |caller| plain(caller, Request::PoolList).await),
        )
        .route("/v1/pools/{pool}", get(pool))
        .route(
            "/v1/volumes",
            get(async |caller| plain(caller, Request::VolumeList { pool: None }).await),
        )
        .route(
            "/v1/drives",
            get(async |caller| plain(caller, Request::DriveList { pool: None }).await),
        )
        .route(
            "/v1/jobs",
            get(async |caller| plain(caller, Request::JobList).await),
        )
        .with_state(caller)
}

async fn request(State(caller): State<Caller>, body: Bytes) -> Response {
    let document: Result<Document<Request>, _> = serde_json::from_slice(&body);
    let outcome = match document {
        Ok(document) if document.schema_version == SCHEMA_VERSION => {
            caller.ask(document.body).await
        }
        Ok(document) => {
            let text = format!("version {} of requests", document.schema_version);
            Err(ControlError::Request(text).into())
        }
        Err(error) => Err(ControlError::Request(error.to_string()).into()),
    };
    respond(&outcome)
}

async fn plain(State(caller): State<Caller>, request: Request) -> Response {
    respond(&caller.ask(request).await)
}

async fn pool(State(caller): State<Caller>, Path(pool): Path<String>) -> Response {
    respond(&caller.ask(Request::PoolStatus { pool }).await)
}

fn respond(outcome: &Result<Reply, Failure>) -> Response {
    let (status, text) = of_outcome(outcome);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
