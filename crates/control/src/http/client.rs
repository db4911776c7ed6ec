//! A command's way to a daemon: one request, one connection.

use crate::document::{Document, Failed};
use crate::error::ControlError;
use crate::failure::Failure;
use crate::request::{Reply, Request, SCHEMA_VERSION};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Bytes of an answer at most. Arbitrary: a list of all volumes of many pools.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Silence that is told. Arbitrary: a person begins to wonder.
const SILENCE: Duration = Duration::from_secs(5);
/// Silence after which a question is given up, in [`SILENCE`]s: half a minute. Arbitrary: a daemon that is well
/// answers within milliseconds.
const SILENCES_MAX: u32 = 6;

/// Connects to the daemon that listens there. `None` if none does.
///
/// # Errors
/// One may listen, but this user must not ask it.
pub fn connect(socket: &Path) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            // Nobody can listen where the path is too long, which opening the directory tells.
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidInput => Ok(None),
            _ => Err(error),
        },
    }
}

/// Asks, and waits for the answer: of a question half a minute, of anything else as long as it takes. Silence is
/// told once, unless it is a job that is waited for.
///
/// # Errors
/// What failed there, or on the way.
pub fn ask(
    stream: UnixStream,
    request: &Request,
    silent: impl Fn(Duration),
) -> Result<Reply, Box<Failure>> {
    let answer = exchange(stream, request, SILENCE, silent);
    decode(&answer.map_err(|error| Box::new(error.into()))?)
}

/// What a request is on the wire; the daemon closes the connection behind its answer.
///
/// # Panics
/// Never: every request is a document.
#[must_use]
pub fn encode(request: &Request) -> Vec<u8> {
    let body = serde_json::to_vec(&Document::new(request)).expect("requests are documents");
    let head = format!(
        "POST /v1/request HTTP/1.1\r\nHost: varve\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// What everything that came until the end of the connection means.
///
/// # Errors
/// What failed there; an answer that is not whole.
pub fn decode(answer: &[u8]) -> Result<Reply, Box<Failure>> {
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (status, body) =
        parse(answer).ok_or_else(|| Box::new(ControlError::Daemonless(cut()).into()))?;
    let strange = |_| Box::new(ControlError::Request("the daemon's answer".to_owned()).into());
    if status == 200 {
        let document: Document<Reply> = serde_json::from_slice(&body).map_err(strange)?;
        if document.schema_version != SCHEMA_VERSION {
            let text = format!("version {} of the daemon's answer", document.schema_version);
            return Err(Box::new(ControlError::Request(text).into()));
        }
        return Ok(document.body);
    }
    let document: Document<Failed> = serde_json::from_slice(&body).map_err(strange)?;
    let Failed::Failure(failure) = document.body;
    Err(Box::new(failure))
}

/// Everything until the end of the connection.
fn exchange(
    mut stream: UnixStream,
    request: &Request,
    silence: Duration,
    silent: impl Fn(Duration),
) -> Result<Vec<u8>, ControlError> {
    let is_job = matches!(request, Request::JobWait { .. });
    let patience = (!is_job).then_some(silence);
    let sent = stream
        .write_all(&encode(request))
        .and_then(|()| stream.set_read_timeout(patience));
    sent.map_err(ControlError::Daemonless)?;
    let mut answer = Vec::new();
    let mut stream = stream.take(ANSWER_BYTES_MAX);
    let mut silences = 0;
    while let Err(error) = stream.read_to_end(&mut answer) {
        // What came before stays in the answer.
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(ControlError::Daemonless(error));
        }
        silences += 1;
        if silences == 1 {
            silent(silence);
        }
        if silences == SILENCES_MAX && request.is_question() {
            return Err(ControlError::Silent(silence * SILENCES_MAX));
        }
    }
    Ok(answer)
}

/// Takes an answer apart; `None` if it is not whole.
fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let body = answer.get(end + 4..)?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    })?;
    let length: usize = length.trim().parse().ok()?;
    (body.len() == length).then(|| Some((status.parse().ok()?, body.to_vec())))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::Shutdown;

    /// A daemon that is silent is told, once; a question is given up at last.
    #[test]
    fn silence_is_told() {
        const SILENCE: Duration = Duration::from_millis(1);
        let told = Cell::new(0);
        let (here, there) = UnixStream::pair().unwrap();
        let tell = |_| told.set(told.get() + 1);
        let asked = exchange(here, &Request::PoolList, SILENCE, tell);
        assert!(matches!(asked, Err(ControlError::Silent(span)) if span == SILENCE * SILENCES_MAX));
        assert_eq!(told.get(), 1);
        drop(there);
        let (here, there) = UnixStream::pair().unwrap();
        let answer = |_| {
            let mut request = [0; 4096];
            assert!((&there).read(&mut request).unwrap() > 0);
            (&there).write_all(b"late").unwrap();
            there.shutdown(Shutdown::Write).unwrap();
        };
        let asked = exchange(here, &Request::PoolList, SILENCE, answer);
        assert_eq!(asked.unwrap(), b"late");
    }

    #[test]
    fn answers_are_whole_or_none() {
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nx: y\r\n\r\n{}";
        assert_eq!(parse(answer), Some((404, b"{}".to_vec())));
        for cut in 0..answer.len() {
            assert_eq!(parse(&answer[..cut]), None);
        }
        assert_eq!(parse(b"HTTP/1.1 xxx\r\ncontent-length: 0\r\n\r\n"), None);
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
