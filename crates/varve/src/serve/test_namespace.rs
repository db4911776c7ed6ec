//! Namespaces without a pool, to measure everything but storage.

use super::error::ServeError;
use super::identity;
use super::plan::{TestKind, TestNamespace};
use super::report::Shown;
use std::rc::Rc;
use varve_io::World;
use varve_server::{NullStore, RamStore, Server, Store};
use varve_target::Namespace;
use varve_units::BLOCK_BYTES;

/// Name of the subsystem.
pub(super) const NQN: &str = "nqn.2026-11.io.varve:test";
/// Its serial number.
pub(super) const SERIAL: &str = "VARVETEST";
/// Identity of the namespace without a memory, always the same: so is its content.
const NULL_ID: [u8; 16] = *b"varve null\x40\x00\x80tst";
/// Blocks that are written atomically: all a command can have, no power is lost in memory.
const ATOMIC_BLOCKS: u16 = 128;

/// Bytes of a namespace in memory at most: 16 TiB. Arbitrary: memory is taken as it is written, but more than any machine
/// has would only be found out by then.
pub(super) const RAM_BYTES_MAX: u64 = 16 << 40;

/// Adds it as namespace 1.
///
/// # Errors
/// No random identity, a size beyond memory, or one that hosts would not accept.
pub(super) fn put(
    world: &Rc<dyn World>,
    server: &Server,
    test: TestNamespace,
) -> Result<Shown, ServeError> {
    let blocks = test.bytes / BLOCK_BYTES;
    let (name, id, store): (_, _, Rc<dyn Store>) = match test.kind {
        TestKind::Null => ("null", NULL_ID, Rc::new(NullStore::new())),
        TestKind::Ram if test.bytes > RAM_BYTES_MAX => {
            return Err(ServeError::RamBytes(test.bytes));
        }
        TestKind::Ram => {
            // Its content is new, so it is another disk than that of the last start.
            let id = identity::new_uuid().map_err(ServeError::Identity)?;
            ("ram", id, Rc::new(RamStore::new(Rc::clone(world), blocks)))
        }
    };
    let namespace = Namespace {
        blocks,
        nguid: id,
        uuid: id,
        is_volatile: false,
        is_thin: true,
        atomic_blocks: ATOMIC_BLOCKS,
    };
    let put = server.put(1, namespace, store);
    put.map_err(ServeError::Namespace)?;
    Ok(Shown::new(1, name, test.bytes, &id))
}
