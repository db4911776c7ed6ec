//! Admin commands: which there are, how much data each has, who does them.

use crate::shared::Shared;
use crate::{features, identify, logs};
use alloc::vec::Vec;
use varve_nvme::feature::Feature;
use varve_nvme::identify::ControllerKind;
use varve_nvme::opcode::admin;
use varve_nvme::{IDENTIFY_BYTES, Sqe, Status};

/// Opcodes that are supported.
pub(crate) const OPCODES: [u8; 7] = [
    admin::GET_LOG_PAGE,
    admin::IDENTIFY,
    admin::ABORT,
    admin::SET_FEATURES,
    admin::GET_FEATURES,
    admin::ASYNC_EVENT,
    admin::KEEP_ALIVE,
];

/// Data a command has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// None.
    None,
    /// This many bytes from the host.
    FromHost(u32),
    /// This many bytes to the host.
    ToHost(u32),
}

/// What a command leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success with this result.
    Reply(u64),
    /// Success with this data.
    Data(Vec<u8>),
    /// An answer comes later.
    Pending,
}

/// An answer other than success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub status: Status,
    pub result: u64,
    /// The same command may succeed later, whatever its status says of that in general.
    pub may_retry: bool,
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self {
            status,
            result: 0,
            may_retry: false,
        }
    }
}

/// Data an admin command has, if there is such a command here.
pub(crate) fn need(kind: ControllerKind, sqe: &Sqe) -> Result<Need, Status> {
    match sqe.opcode {
        admin::GET_LOG_PAGE => logs::data_bytes(sqe).map(Need::ToHost),
        admin::IDENTIFY => Ok(Need::ToHost(IDENTIFY_BYTES as u32)),
        admin::GET_FEATURES => match features::data_bytes(sqe) {
            0 => Ok(Need::None),
            bytes => Ok(Need::ToHost(bytes)),
        },
        // The host's identifier is that of Connect (spec: base 2.0 §5.27.1.25).
        admin::SET_FEATURES if Feature::of(sqe) == Some(Feature::HostIdentifier) => {
            Err(Status::SequenceError)
        }
        admin::SET_FEATURES => match features::sent_bytes(sqe) {
            0 => Ok(Need::None),
            // Of a feature that this kind has not, no data is asked for.
            _ if kind != ControllerKind::Io => Err(Status::InvalidField),
            bytes => Ok(Need::FromHost(bytes)),
        },
        admin::ASYNC_EVENT | admin::KEEP_ALIVE => Ok(Need::None),
        admin::ABORT if kind == ControllerKind::Io => Ok(Need::None),
        _ => Err(Status::InvalidOpcode),
    }
}

/// Commands that need nothing but the controller, and the data that the host sent.
pub(crate) fn execute(
    shared: &mut Shared,
    cntlid: u16,
    sqe: &Sqe,
    data: &[u8],
) -> Result<Outcome, Reply> {
    match sqe.opcode {
        admin::GET_LOG_PAGE => logs::get(shared, cntlid, sqe),
        admin::IDENTIFY => identify::identify(shared, &shared.controllers[&cntlid], sqe),
        admin::GET_FEATURES => features::get(&shared.controllers[&cntlid], sqe),
        admin::SET_FEATURES => features::set(shared, cntlid, sqe, data),
        admin::KEEP_ALIVE => Ok(Outcome::Reply(0)),
        _ => Err(Status::InvalidOpcode.into()),
    }
}
