//! Host and target over pipes, and a host against scripted bytes.

mod faults;
mod net;
mod pair;
mod peers;
mod progress;
mod script;
mod scripted;
