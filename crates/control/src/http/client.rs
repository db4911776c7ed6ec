//! A command's way to a daemon: one request, one connection.

use crate::document::{Document, Failed};
use crate::error::ControlError;
use crate::failure::Failure;
use crate::request::{Reply, Request, SCHEMA_VERSION};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of an answer at most. Arbitrary: a list of all volumes of many pools.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Connects to the daemon that listens there. `None` if none does.
///
/// # Errors
/// One may listen, but this user must not ask it.
pub fn connect(socket: &Path) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Asks, and waits for the answer as long as it takes.
///
/// # Errors
/// What failed there, or on the way.
pub fn ask(stream: UnixStream, request: &Request) -> Result<Reply, Box<Failure>> {
    let answer = exchange(stream, request);
    let (status, body) =
        answer.map_err(|error| Box::new(ControlError::Daemonless(error).into()))?;
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

/// Status and body of the answer.
fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<(u16, Vec<u8>)> {
    let body = serde_json::to_vec(&Document::new(request))?;
    let head = format!(
        "POST /v1/request HTTP/1.1\r\nHost: varve\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
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
