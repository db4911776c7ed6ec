//! Tells the service manager how far the daemon is (`sd_notify(3)`): a datagram to `$NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Hosts can connect.
    Ready,
    /// It drains.
    Stopping,
}

/// Tells the service manager, if there is one.
///
/// # Errors
/// The system's: nobody is there, say.
pub(crate) fn notify(state: State) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) if !socket.is_empty() => send(&socket, state),
        _ => Ok(()),
    }
}

fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let text: &[u8] = match state {
        State::Ready => b"READY=1",
        State::Stopping => b"STOPPING=1",
    };
    let sent = UnixDatagram::unbound()?.send_to_addr(text, &address)?;
    assert_eq!(sent, text.len(), "a datagram is sent whole");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_it() {
        let name = format!("varve-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let socket = format!("@{name}");
        for (state, expected) in [(State::Ready, "READY=1"), (State::Stopping, "STOPPING=1")] {
            send(OsStr::new(&socket), state).unwrap();
            let mut buffer = [0; 64];
            let count = manager.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], expected.as_bytes());
        }
        drop(manager);
        assert!(send(OsStr::new(&socket), State::Ready).is_err());
    }
}
