//! Commands of the NVM command set (spec: nvm 1.0 §3).

use crate::action::Operation;
use crate::admin::Need;
use crate::shared::Shared;
use crate::slots::{Reading, Work};
use crate::{BLOCK_BYTES, TRANSFER_BYTES_MAX};
use alloc::vec::Vec;
use varve_nvme::dsm::{Dsm, DsmRange, RANGES_MAX};
use varve_nvme::event;
use varve_nvme::identify::ControllerKind;
use varve_nvme::opcode::io;
use varve_nvme::{NSID_ALL, Sqe, Status};
use zerocopy::FromBytes;

/// Opcodes that are supported, and whether they change blocks.
pub(crate) const OPCODES: [(u8, bool); 6] = [
    (io::FLUSH, false),
    (io::WRITE, true),
    (io::READ, false),
    (io::COMPARE, false),
    (io::WRITE_ZEROES, true),
    (io::DATASET_MANAGEMENT, true),
];

/// Bytes of the ranges of a Dataset Management, at most.
const RANGES_BYTES_MAX: u32 = (RANGES_MAX * size_of::<DsmRange>()) as u32;

/// PRINFO of reads and writes: protection information, which no namespace has.
const PROTECTION: u32 = 0xf << 26;

/// Events a controller of this kind can report: OAES.
pub(crate) const fn offered_events(kind: ControllerKind) -> u32 {
    match kind {
        ControllerKind::Io => event::NAMESPACE_ATTRIBUTE,
        ControllerKind::Discovery => event::DISCOVERY_LOG,
    }
}

/// Events of which a host may say whether it wants them: AEC.
pub(crate) const fn configurable_events(kind: ControllerKind) -> u32 {
    match kind {
        ControllerKind::Io => offered_events(kind) | event::CRITICAL_WARNINGS,
        ControllerKind::Discovery => offered_events(kind),
    }
}

/// Blocks of the namespace a command names.
fn size(shared: &Shared, sqe: &Sqe) -> Result<u64, Status> {
    let nsid = sqe.namespace().ok_or(Status::InvalidNamespace)?;
    let namespace = shared.subsystem.namespaces.get(&nsid);
    Ok(namespace.ok_or(Status::InvalidNamespace)?.blocks)
}

/// First block and number of blocks of a command, inside its namespace.
fn range(shared: &Shared, sqe: &Sqe) -> Result<(u64, u32), Status> {
    let blocks = size(shared, sqe)?;
    let range = sqe.range();
    check_range(blocks, range.slba, range.count)?;
    Ok((range.slba, range.count))
}

fn check_range(blocks: u64, lba: u64, count: u32) -> Result<(), Status> {
    match lba.checked_add(u64::from(count)) {
        Some(end) if end <= blocks => Ok(()),
        _ => Err(Status::LbaOutOfRange),
    }
}

/// Checks a command and says what data it has. Data of hosts is asked for only after this.
pub(crate) fn need(shared: &Shared, sqe: &Sqe) -> Result<Need, Status> {
    match sqe.opcode {
        io::FLUSH if sqe.nsid.get() == NSID_ALL => Ok(Need::None),
        io::FLUSH => size(shared, sqe).map(|_| Need::None),
        io::READ | io::WRITE | io::COMPARE => {
            let (_, count) = range(shared, sqe)?;
            let bytes = count * BLOCK_BYTES;
            // Data beyond MDTS is an invalid field (spec: base 2.0 §5.17.2.1, MDTS).
            if bytes > TRANSFER_BYTES_MAX || sqe.cdw(12) & PROTECTION != 0 {
                return Err(Status::InvalidField);
            }
            Ok(if sqe.opcode == io::READ {
                Need::ToHost(bytes)
            } else {
                Need::FromHost(bytes)
            })
        }
        io::WRITE_ZEROES => {
            if sqe.cdw(12) & PROTECTION != 0 {
                return Err(Status::InvalidField);
            }
            range(shared, sqe).map(|_| Need::None)
        }
        io::DATASET_MANAGEMENT => {
            size(shared, sqe)?;
            let bytes = (Dsm::from_sqe(sqe).ranges * size_of::<DsmRange>()) as u32;
            // Linux always sends room for 256 ranges; those beyond the number are not looked at.
            let sent = sqe.data()?.length();
            if (bytes..=RANGES_BYTES_MAX).contains(&sent) {
                return Ok(Need::FromHost(sent));
            }
            Err(Status::InvalidSglLength)
        }
        _ => Err(Status::InvalidOpcode),
    }
}

/// What the backend is to do; `None` if nothing is to be done.
///
/// The namespace is looked at again: it may have changed while the data came.
pub(crate) fn operation(
    shared: &Shared,
    sqe: &Sqe,
    data: Vec<u8>,
) -> Result<Option<(Operation, Work)>, Status> {
    if sqe.opcode == io::FLUSH {
        if sqe.nsid.get() != NSID_ALL {
            size(shared, sqe)?;
        }
        return Ok(Some((Operation::Flush, Work::Plain)));
    }
    if sqe.opcode == io::DATASET_MANAGEMENT {
        return deallocate(shared, sqe, &data);
    }
    let (lba, blocks) = range(shared, sqe)?;
    let fua = sqe.fua();
    let pair = match sqe.opcode {
        io::READ => reading(shared, sqe, Reading::Read),
        io::COMPARE => reading(shared, sqe, Reading::Compare(data)),
        io::WRITE => (Operation::Write { lba, data, fua }, Work::Plain),
        io::WRITE_ZEROES => (Operation::WriteZeroes { lba, blocks, fua }, Work::Plain),
        _ => return Err(Status::InvalidOpcode),
    };
    Ok(Some(pair))
}

/// A read or compare. With FUA its blocks are durable before they are read, on media that may lose them
/// (spec: nvm 1.0 §3.2.4, §3.2.1).
pub(crate) fn reading(shared: &Shared, sqe: &Sqe, what: Reading) -> (Operation, Work) {
    let namespace = shared.subsystem.namespaces.get(&sqe.nsid.get());
    if sqe.fua() && namespace.is_some_and(|one| one.is_volatile) {
        return (Operation::Flush, Work::Commit(what));
    }
    (read(sqe), what.work())
}

/// The reading itself.
pub(crate) fn read(sqe: &Sqe) -> Operation {
    let range = sqe.range();
    Operation::Read {
        lba: range.slba,
        blocks: range.count,
    }
}

/// Dataset Management; all its ranges are checked before any of them is deallocated.
fn deallocate(
    shared: &Shared,
    sqe: &Sqe,
    data: &[u8],
) -> Result<Option<(Operation, Work)>, Status> {
    let size = size(shared, sqe)?;
    let mut ranges = Vec::new();
    let count = Dsm::from_sqe(sqe).ranges;
    for raw in data.as_chunks::<16>().0.iter().take(count) {
        let raw = DsmRange::read_from_bytes(raw).map_err(|_| Status::InvalidField)?;
        let (lba, count) = (raw.slba.get(), raw.nlb.get());
        check_range(size, lba, count)?;
        if count > 0 {
            ranges.push((lba, count));
        }
    }
    // Hints other than deallocate change nothing.
    if !Dsm::from_sqe(sqe).deallocate || ranges.is_empty() {
        return Ok(None);
    }
    Ok(Some((Operation::Deallocate { ranges }, Work::Plain)))
}
