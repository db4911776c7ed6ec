//! A scripted host against the target: PDUs by hand, a disk in memory.

mod association;
mod crowd;
mod discovery;
mod host;
mod hostile;
mod retries;
mod session;
mod stall;
mod states;
mod warnings;
