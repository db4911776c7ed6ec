//! Get Log Page (spec: base 2.0 §5.16).

use crate::admin::{self, Outcome, Reply};
use crate::controller::Controller;
use crate::features;
use crate::shared::Shared;
use crate::{BLOCK_BYTES, QUEUE_ENTRIES_MAX, TRANSFER_BYTES_MAX, io};
use alloc::vec;
use alloc::vec::Vec;
use varve_nvme::discovery::{DiscoveryEntry, DiscoveryHeader, Found, PERSISTENT, Subtype};
use varve_nvme::event::Notice;
use varve_nvme::feature::Feature;
use varve_nvme::identify::{ControllerKind, ascii_field};
use varve_nvme::log::{self, GetLogPage, LogId, SmartLog};
use varve_nvme::{NSID_ALL, Nqn, Sqe, Status};
use zerocopy::IntoBytes;

/// Logs of a controller.
fn has(id: LogId, kind: ControllerKind) -> bool {
    match id {
        LogId::Supported | LogId::Error | LogId::Features => true,
        LogId::Discovery => kind == ControllerKind::Discovery,
        _ => kind == ControllerKind::Io,
    }
}

/// Bytes of data of a Get Log Page.
pub(crate) fn data_bytes(sqe: &Sqe) -> Result<u32, Status> {
    let len = GetLogPage::from_sqe(sqe).len;
    let len = u32::try_from(len).map_err(|_| Status::InvalidField)?;
    if len > TRANSFER_BYTES_MAX {
        return Err(Status::InvalidField);
    }
    Ok(len)
}

/// Get Log Page.
pub(crate) fn get(shared: &mut Shared, cntlid: u16, sqe: &Sqe) -> Result<Outcome, Reply> {
    let command = GetLogPage::from_sqe(sqe);
    let controller = &shared.controllers[&cntlid];
    let id = LogId::from_code(command.lid).filter(|id| has(*id, controller.kind));
    let id = id.ok_or(Status::InvalidLogPage)?;
    if command.by_index || !command.offset.is_multiple_of(4) {
        return Err(Status::InvalidField.into());
    }
    let page = match id {
        LogId::Supported => supported(controller.kind),
        LogId::Error => errors(controller),
        // One for all namespaces: Identify names none for each (LPA bit 0).
        LogId::Smart if !matches!(sqe.nsid.get(), 0 | NSID_ALL) => {
            return Err(Status::InvalidField.into());
        }
        LogId::Smart => smart(shared, controller).as_bytes().to_vec(),
        LogId::Firmware => firmware(shared),
        LogId::ChangedNamespaces => changed(controller),
        LogId::Effects if command.csi != 0 => return Err(Status::CommandSetUnsupported.into()),
        LogId::Effects => effects(),
        LogId::Features => feature_words(controller),
        LogId::Discovery => discovery(shared, controller),
    };
    let len = command.len as usize;
    let start = usize::try_from(command.offset).map_err(|_| Status::InvalidField)?;
    let rest = page.get(start..).ok_or(Status::InvalidField)?;
    let mut data = rest[..rest.len().min(len)].to_vec();
    data.resize(len, 0);
    if !command.rae {
        let controller = shared.controllers.get_mut(&cntlid);
        mark_read(controller.expect("looked up above"), id);
        shared
            .effects
            .push_back(crate::shared::Effect::Notify(cntlid));
    }
    Ok(Outcome::Data(data))
}

/// A log was read without RAE: its event may come again.
fn mark_read(controller: &mut Controller, id: LogId) {
    match id {
        LogId::ChangedNamespaces => {
            controller.changed.clear();
            controller.unmask(Notice::NamespaceAttribute);
        }
        LogId::Discovery => controller.unmask(Notice::DiscoveryLog),
        LogId::Smart => controller.unmask(Notice::Reliability),
        _ => {}
    }
}

/// A log of 256 words.
fn words(all: impl Iterator<Item = (u8, u32)>, len: usize, offset: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    put_words(&mut bytes, all, offset);
    bytes
}

fn put_words(bytes: &mut [u8], all: impl Iterator<Item = (u8, u32)>, offset: usize) {
    for (index, word) in all {
        let at = offset + usize::from(index) * 4;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
}

fn supported(kind: ControllerKind) -> Vec<u8> {
    let ids = LogId::ALL.into_iter().filter(|id| has(*id, kind));
    words(
        ids.map(|id| (id as u8, log::LOG_SUPPORTED)),
        log::WORDS_BYTES,
        0,
    )
}

fn feature_words(controller: &Controller) -> Vec<u8> {
    let ids = Feature::ALL.iter().copied();
    let ids = ids.filter(|id| features::has(*id, controller.kind));
    words(
        ids.map(|id| (id as u8, log::FEATURE_SUPPORTED)),
        log::WORDS_BYTES,
        0,
    )
}

fn effects() -> Vec<u8> {
    let admin = admin::OPCODES
        .into_iter()
        .map(|code| (code, log::COMMAND_SUPPORTED));
    let mut bytes = words(admin, log::EFFECTS_BYTES, 0);
    let io = io::OPCODES.into_iter().map(|(code, is_change)| {
        let change = if is_change { log::CHANGES_BLOCKS } else { 0 };
        (code, log::COMMAND_SUPPORTED | change)
    });
    put_words(&mut bytes, io, log::EFFECTS_IO_OFFSET);
    bytes
}

fn errors(controller: &Controller) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for entry in &controller.errors {
        bytes.extend_from_slice(entry.as_bytes());
    }
    bytes.resize(crate::controller::ERRORS_MAX * 64, 0);
    bytes
}

/// Health. There is no sensor, so no temperature; counts are since the target started. Nobody measures spare and wear:
/// they stay at what says nothing of either.
fn smart(shared: &Shared, controller: &Controller) -> SmartLog {
    let health = &shared.health;
    let wide = |count: u64| u128::from(count).to_le_bytes();
    let units = |blocks: u64| wide((blocks * u64::from(BLOCK_BYTES / 512)).div_ceil(1000));
    let mut log = SmartLog::zeroed();
    log.critical = shared.warnings.bits();
    log.spare = 100;
    log.data_units_read = units(health.blocks_read);
    log.data_units_written = units(health.blocks_written);
    log.host_reads = wide(health.reads);
    log.host_writes = wide(health.writes);
    log.media_errors = wide(health.media_errors);
    log.error_entries = wide(controller.error_count);
    log
}

/// One slot, active, with the revision that Identify gives.
fn firmware(shared: &Shared) -> Vec<u8> {
    let mut bytes = vec![0; log::FIRMWARE_BYTES];
    bytes[0] = 1;
    bytes[8..16].copy_from_slice(&ascii_field::<8>(&shared.subsystem.firmware));
    bytes
}

fn changed(controller: &Controller) -> Vec<u8> {
    let mut bytes = vec![0; log::CHANGED_BYTES];
    if controller.changed.len() > log::CHANGED_MAX {
        bytes[..4].copy_from_slice(&NSID_ALL.to_le_bytes());
        return bytes;
    }
    let places = bytes.as_chunks_mut::<4>().0;
    for (place, nsid) in places.iter_mut().zip(&controller.changed) {
        *place = nsid.to_le_bytes();
    }
    bytes
}

/// What the host may connect to, then where this log is to be had (spec: base 2.0 §5.16.1.23).
fn discovery(shared: &Shared, controller: &Controller) -> Vec<u8> {
    let subsystem = &shared.subsystem;
    let mut entries: Vec<DiscoveryEntry> = Vec::new();
    for (port, listener) in subsystem.listeners.iter().enumerate() {
        let (subtype, name, eflags) = if listener.is_discovery {
            (Subtype::Current, Nqn::discovery(), PERSISTENT)
        } else {
            (Subtype::Nvm, subsystem.nqn.clone(), 0)
        };
        if !listener.is_discovery && !subsystem.hosts.allow(&controller.host.nqn) {
            continue;
        }
        let found = Found {
            subtype,
            subsystem: name,
            address: listener.advertise,
            portid: (port & 0xffff) as u16,
        };
        entries.push(DiscoveryEntry::new(&found, QUEUE_ENTRIES_MAX, eflags));
    }
    let header = DiscoveryHeader::new(shared.discovery_generation, entries.len() as u64);
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(entries.as_bytes());
    bytes
}
