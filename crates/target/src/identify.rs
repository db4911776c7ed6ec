//! Identify (spec: base 2.0 §5.17).

use crate::admin::{Outcome, Reply};
use crate::controller::{Controller, ERRORS_MAX, KAS};
use crate::shared::Shared;
use crate::subsystem::{NSID_MAX, Namespace};
use crate::{
    ASYNC_EVENTS_MAX, BLOCK_BYTES, CAPSULE_DATA, MDTS, QUEUE_ENTRIES_MAX, TRANSFER_BYTES_MAX, io,
};
use alloc::vec::Vec;
use core::ops::Bound;
use varve_nvme::identify::{
    Cns, ControllerKind, Descriptor, Identify, IdentifyController, IdentifyNamespace,
    IndependentNamespace, NvmController, NvmNamespace, ascii_field, attribute, command_sets,
    command_support, descriptors, log_attribute, namespace_feature, namespace_list, sgl_support,
};
use varve_nvme::nqn::Nqn;
use varve_nvme::property::VERSION_2_0;
use varve_nvme::{NSID_ALL, Sqe, Status, dsm};
use zerocopy::IntoBytes;

/// Model number of every controller.
const MODEL: &str = "Varve";
/// VWC: bits 2:1 say that a flush of all namespaces is supported, bit 0 that flushes matter.
const VWC_FLUSH_ALL: u8 = 0b110;
const VWC_PRESENT: u8 = 0b001;
/// CRDT1, in units of 100 ms: how long hosts wait before they send again what failed for something that takes time.
/// Arbitrary: Linux tries five times more, so it goes on for 25 s.
const RETRY_DELAY: u16 = 50;
/// CMIC: several controllers; no ANA.
const CMIC_CONTROLLERS: u8 = 1 << 1;
/// FRMW: one slot, read only, so no firmware commands.
const FRMW_ONE_SLOT: u8 = 1 | 1 << 1;
/// NMIC: shared by controllers.
const NMIC_SHARED: u8 = 1;
/// DLFEAT: deallocated blocks read as zeroes; Write Zeroes may deallocate.
const DLFEAT_ZEROES: u8 = 1 | 1 << 3;
/// Exponent of a block's bytes.
const LBADS: u8 = BLOCK_BYTES.trailing_zeros() as u8;

/// Identify.
pub(crate) fn identify(
    shared: &Shared,
    controller: &Controller,
    sqe: &Sqe,
) -> Result<Outcome, Reply> {
    let command = Identify::from_sqe(sqe)?;
    let is_discovery = controller.kind == ControllerKind::Discovery;
    if is_discovery && command.cns != Cns::Controller {
        return Err(Status::InvalidField.into());
    }
    let needs_set = matches!(
        command.cns,
        Cns::SetNamespace | Cns::SetController | Cns::SetActiveNamespaces
    );
    if needs_set && command.csi != 0 {
        return Err(Status::InvalidCommandSet.into());
    }
    let namespaces = &shared.subsystem.namespaces;
    let namespace = namespaces.get(&command.nsid);
    let is_known = (1..=NSID_MAX).contains(&command.nsid);
    let known = || is_known.then_some(()).ok_or(Status::InvalidNamespace);
    let data = match command.cns {
        Cns::Controller if is_discovery => {
            discovery_controller(shared, controller).as_bytes().to_vec()
        }
        Cns::Controller => io_controller(shared, controller).as_bytes().to_vec(),
        Cns::Namespace if command.nsid == NSID_ALL => common_namespace().as_bytes().to_vec(),
        Cns::Namespace => {
            known()?;
            let found = namespace.map_or_else(IdentifyNamespace::zeroed, full_namespace);
            found.as_bytes().to_vec()
        }
        Cns::SetNamespace => {
            known()?;
            NvmNamespace::zeroed().as_bytes().to_vec()
        }
        Cns::IndependentNamespace => {
            known()?;
            let found = namespace.map_or_else(IndependentNamespace::zeroed, independent_namespace);
            found.as_bytes().to_vec()
        }
        Cns::SetController => nvm_controller().as_bytes().to_vec(),
        Cns::ActiveNamespaces | Cns::SetActiveNamespaces => {
            if command.nsid >= NSID_ALL - 1 {
                return Err(Status::InvalidNamespace.into());
            }
            let above = (Bound::Excluded(command.nsid), Bound::Unbounded);
            namespace_list(namespaces.range(above).map(|(nsid, _)| *nsid))
        }
        Cns::Descriptors => identifiers(namespace.ok_or(Status::InvalidNamespace)?),
        Cns::CommandSets => {
            if command.cntid != 0xffff && command.cntid != controller.cntlid {
                return Err(Status::InvalidField.into());
            }
            command_sets()
        }
    };
    Ok(Outcome::Data(data))
}

/// What both kinds of controller share.
fn controller(shared: &Shared, controller: &Controller) -> IdentifyController {
    let subsystem = &shared.subsystem;
    let mut id = IdentifyController::zeroed();
    id.sn = ascii_field(&subsystem.serial);
    id.mn = ascii_field(MODEL);
    id.fr = ascii_field(&subsystem.firmware);
    id.cmic = CMIC_CONTROLLERS;
    id.mdts = MDTS;
    id.cntlid = controller.cntlid.into();
    id.ver = VERSION_2_0.into();
    id.oaes = io::offered_events(controller.kind).into();
    id.ctratt = (attribute::HOST_ID_128 | attribute::TRAFFIC_KEEP_ALIVE).into();
    id.cntrltype = controller.kind as u8;
    id.acl = 3;
    id.aerl = (ASYNC_EVENTS_MAX - 1) as u8;
    id.frmw = FRMW_ONE_SLOT;
    // Logs 00h and 12h are there; the bit that says so also promises 13h, and scopes in the log of effects.
    id.lpa = log_attribute::EXTENDED;
    id.elpe = (ERRORS_MAX - 1) as u8;
    id.kas = KAS.into();
    id.maxcmd = QUEUE_ENTRIES_MAX.into();
    id.sgls = (sgl_support::SUPPORTED | sgl_support::OFFSET | sgl_support::TRANSPORT).into();
    // In units of 16 bytes.
    id.ioccsz = ((64 + CAPSULE_DATA) / 16).into();
    id.iorcsz = 1.into();
    id.msdbd = 1;
    id
}

fn discovery_controller(shared: &Shared, own: &Controller) -> IdentifyController {
    let mut id = controller(shared, own);
    id.subnqn = Nqn::discovery().to_field();
    id
}

fn io_controller(shared: &Shared, own: &Controller) -> IdentifyController {
    let mut id = controller(shared, own);
    id.subnqn = shared.subsystem.nqn.to_field();
    id.lpa |= log_attribute::EFFECTS;
    id.sqes = 0x66;
    id.cqes = 0x44;
    id.nn = NSID_MAX.into();
    id.mnan = NSID_MAX.into();
    let oncs = command_support::COMPARE
        | command_support::DATASET_MANAGEMENT
        | command_support::WRITE_ZEROES;
    id.oncs = oncs.into();
    id.crdt[0] = RETRY_DELAY.into();
    // Whatever the namespaces of now are: hosts ask once, and one that is added later may need flushes. Each says
    // itself if it does not.
    id.vwc = VWC_FLUSH_ALL | VWC_PRESENT;
    // One block is always atomic; what namespaces do beyond that they say themselves.
    id.awun = 0.into();
    id.awupf = 0.into();
    id
}

fn nvm_controller() -> NvmController {
    let mut id = NvmController::zeroed();
    id.dmrl = u8::MAX;
    id.dmrsl = u32::MAX.into();
    id.dmsl = (u64::from(u32::MAX) * dsm::RANGES_MAX as u64).into();
    id
}

/// What all namespaces have in common.
fn common_namespace() -> IdentifyNamespace {
    let mut id = IdentifyNamespace::zeroed();
    id.dlfeat = DLFEAT_ZEROES;
    id.lbaf[0].lbads = LBADS;
    id
}

fn full_namespace(namespace: &Namespace) -> IdentifyNamespace {
    let mut id = common_namespace();
    id.nsze = namespace.blocks.into();
    id.ncap = namespace.blocks.into();
    id.nuse = namespace.blocks.into();
    id.nmic = NMIC_SHARED;
    id.nguid = namespace.nguid;
    if namespace.is_thin {
        id.nsfeat |= namespace_feature::THIN;
    }
    if let Some(boundary) = namespace.atomic_blocks.checked_sub(1) {
        // Longest atomic write: what a command can carry, if the boundary allows it.
        let longest = (TRANSFER_BYTES_MAX / BLOCK_BYTES - 1).min(u32::from(boundary)) as u16;
        id.nsfeat |= namespace_feature::ATOMIC;
        id.nawun = longest.into();
        id.nawupf = longest.into();
        id.nabsn = boundary.into();
        id.nabspf = boundary.into();
    }
    id
}

fn independent_namespace(namespace: &Namespace) -> IndependentNamespace {
    let mut id = IndependentNamespace::zeroed();
    id.nmic = NMIC_SHARED;
    // NRDY.
    id.nstat = 1;
    if !namespace.is_volatile {
        id.nsfeat |= namespace_feature::NO_WRITE_CACHE;
    }
    id
}

fn identifiers(namespace: &Namespace) -> Vec<u8> {
    descriptors(&[
        Descriptor::Nguid(namespace.nguid),
        Descriptor::Uuid(namespace.uuid),
        Descriptor::Csi(0),
    ])
}
