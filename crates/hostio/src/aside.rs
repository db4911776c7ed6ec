//! What may wait for a device or a file system, on a thread of its own: the reactor goes on meanwhile.

use crate::io::Io;
use crate::net::Stream;
use std::io;
use std::sync::mpsc::channel;
use std::thread::Builder;

/// Does `work` on another thread, and gives what comes of it.
///
/// The thread lives as long as the work: where that hangs, whoever gives up waiting leaves it behind, and has to see
/// to it that there are not many of them.
///
/// # Errors
/// The system's, if there can be no such thread; the work panicked.
pub async fn aside<T: Send + 'static>(
    io: Io,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (near, far) = Stream::pair(io)?;
    let (sender, receiver) = channel();
    Builder::new()
        .name("varve-aside".to_owned())
        .spawn(move || {
            // Whoever asked may have left.
            let _ = sender.send(work());
            drop(far);
        })?;
    // It ends when the other end is dropped, whatever became of the work.
    let _ = near.receive(Vec::with_capacity(1)).await;
    receiver
        .try_recv()
        .map_err(|_| io::Error::other("the thread that was to do it panicked"))
}
