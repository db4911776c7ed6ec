//! What the controller and the namespace are, as they say, within what this side takes.

use crate::requests::Limits;
use crate::{QUEUE_ENTRIES_MAX, TRANSFER_BYTES_MAX};
use varve_nvme::dsm::RANGES_MAX;
use varve_nvme::event;
use varve_nvme::identify::{
    Descriptor, IdentifyController, IdentifyNamespace, NvmController, command_support,
};
use varve_nvme::property::Capabilities;
use varve_units::Nanos;

/// Bytes of an SQE.
const SQE_BYTES: u32 = 64;
/// Unit of IOCCSZ in bytes (spec: base 2.0 §5.17.2.1).
const CAPSULE_UNIT: u32 = 16;
/// Blocks one command can name.
const BLOCKS_MAX: u32 = 65_536;
/// NSATTR: write protected.
const WRITE_PROTECTED: u8 = 1;

/// A namespace as its host sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceInfo {
    /// Its id.
    pub nsid: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// Bytes of a block: 512 or 4096.
    pub block_bytes: u32,
    /// True if a write that was answered can be lost until it is flushed.
    pub is_volatile: bool,
    /// True if writes are refused now.
    pub is_read_only: bool,
    /// True if blocks can be deallocated.
    pub has_deallocate: bool,
    /// Identifiers that never change.
    pub identity: Identity,
}

/// Identifiers of a namespace that never change, as far as it has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// UUID.
    pub uuid: Option<[u8; 16]>,
    /// NGUID.
    pub nguid: Option<[u8; 16]>,
    /// EUI-64.
    pub eui64: Option<[u8; 8]>,
}

/// What was learnt at start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Entries of a queue.
    pub entries_max: u16,
    pub ready_time: Nanos,
    /// CSS to enable with.
    pub css: u32,
    page_bytes: u64,
    /// Bytes of data of one command.
    pub transfer_bytes: u32,
    /// Bytes of data of a capsule of an I/O queue.
    pub capsule_data: u32,
    /// Commands of an I/O queue at a time, 0 for no limit of its own.
    commands_max: u16,
    /// Events it can report that are understood here.
    pub events: u32,
    supports: u16,
    is_volatile: bool,
    /// I/O queues it gives.
    pub queues: u16,
    /// WZSL, if it is known.
    wzsl: Option<u8>,
    /// DMRL, DMRSL, DMSL.
    ranges: (u8, u32, u64),
    /// KAS: keep-alive timeouts are rounded up to multiples of it; 0 if there is no keep alive.
    pub keep_alive_step: Nanos,
}

impl Facts {
    /// CAP.
    pub fn set_capabilities(&mut self, bits: u64) {
        let capabilities = Capabilities::from_bits(bits);
        self.entries_max = capabilities.mqes.saturating_add(1).min(QUEUE_ENTRIES_MAX);
        // At least a second: a controller that says 0 is given the time of an answer.
        let half_seconds = u64::from(capabilities.timeout).max(2);
        self.ready_time = Nanos::from_millis(500 * half_seconds);
        self.css = Capabilities::css(bits);
        self.page_bytes = Capabilities::page_bytes_min(bits);
    }

    /// Identify Controller.
    pub fn set_controller(&mut self, id: &IdentifyController) {
        self.transfer_bytes = match id.mdts {
            0 => TRANSFER_BYTES_MAX,
            mdts if mdts < 32 => (self.page_bytes << mdts).min(TRANSFER_BYTES_MAX.into()) as u32,
            _ => TRANSFER_BYTES_MAX,
        };
        let capsule = id.ioccsz.get().saturating_mul(CAPSULE_UNIT);
        let offset = u32::from(id.icdoff.get()).saturating_mul(CAPSULE_UNIT);
        // Data that does not follow the SQE at once is not worth the trouble.
        self.capsule_data = match offset {
            0 => capsule.saturating_sub(SQE_BYTES).min(TRANSFER_BYTES_MAX),
            _ => 0,
        };
        self.commands_max = id.maxcmd.get();
        self.events = id.oaes.get() & (event::NAMESPACE_ATTRIBUTE | event::DISCOVERY_LOG);
        self.supports = id.oncs.get();
        self.is_volatile = id.vwc & 1 != 0;
        self.keep_alive_step = Nanos::from_millis(100 * u64::from(id.kas.get()));
    }

    /// What the NVM command set adds; a controller of before 2.0 does not say.
    pub fn set_command_set(&mut self, id: &NvmController) {
        self.wzsl = Some(id.wzsl);
        self.ranges = (id.dmrl, id.dmrsl.get(), id.dmsl.get());
    }

    /// Entries of an I/O queue when `wanted` are wanted.
    pub fn queue_entries(&self, wanted: u16) -> u16 {
        wanted.min(self.entries_max).max(2)
    }

    /// Commands in flight on a queue of so many entries: one fewer, or it would look empty.
    pub fn queue_commands(&self, entries: u16) -> u16 {
        let commands = entries - 1;
        match self.commands_max {
            0 => commands,
            max => commands.min(max),
        }
    }

    /// The namespace, if it is one that can be used.
    pub fn namespace(
        &self,
        nsid: u32,
        id: &IdentifyNamespace,
        identity: Identity,
    ) -> Option<NamespaceInfo> {
        let index = usize::from(id.flbas & 15) | usize::from(id.flbas >> 5 & 3) << 4;
        let has_metadata = id.lbaf.get(index).is_none_or(|format| format.ms.get() != 0);
        let block_bytes = id.block_bytes()?;
        if has_metadata || !matches!(block_bytes, 512 | 4096) {
            return None;
        }
        id.nsze.get().checked_mul(block_bytes.into())?;
        let some = |id: [u8; 16]| (id != [0; 16]).then_some(id);
        let identity = Identity {
            uuid: identity.uuid,
            nguid: identity.nguid.or(some(id.nguid)),
            eui64: identity.eui64.or((id.eui64 != [0; 8]).then_some(id.eui64)),
        };
        Some(NamespaceInfo {
            nsid,
            blocks: id.nsze.get(),
            block_bytes,
            is_volatile: self.is_volatile,
            is_read_only: id.nsattr & WRITE_PROTECTED != 0,
            has_deallocate: self.supports & command_support::DATASET_MANAGEMENT != 0,
            identity,
        })
    }

    /// What one command may be.
    pub fn limits(&self, namespace: &NamespaceInfo) -> Limits {
        let block = u64::from(namespace.block_bytes);
        let blocks = |bytes: u64| (bytes / block).clamp(1, BLOCKS_MAX.into()) as u32;
        let has = |bit| self.supports & bit != 0;
        let transfer_blocks = blocks(self.transfer_bytes.into());
        let zeroes_blocks = match self.wzsl {
            // It does not say: what it takes as a write.
            None => transfer_blocks,
            Some(0) => BLOCKS_MAX,
            Some(exponent) => blocks(self.page_bytes << exponent.min(31)),
        };
        let (ranges, range_blocks, discard_blocks) = self.ranges;
        let or_max = |value: u32, max: u32| if value == 0 { max } else { value.min(max) };
        Limits {
            nsid: namespace.nsid,
            block_bytes: namespace.block_bytes,
            transfer_blocks,
            zeroes_blocks: if has(command_support::WRITE_ZEROES) {
                zeroes_blocks
            } else {
                0
            },
            range_blocks: if namespace.has_deallocate {
                or_max(range_blocks, u32::MAX)
            } else {
                0
            },
            ranges: or_max(ranges.into(), RANGES_MAX as u32),
            discard_blocks: match discard_blocks {
                0 => u64::MAX,
                blocks => blocks,
            },
            has_compare: has(command_support::COMPARE),
            is_volatile: namespace.is_volatile,
        }
    }
}

impl Identity {
    /// From a list of descriptors.
    pub(crate) fn of(descriptors: &[Descriptor]) -> Self {
        let mut identity = Self::default();
        for descriptor in descriptors {
            match descriptor {
                Descriptor::Uuid(id) => identity.uuid = Some(*id),
                Descriptor::Nguid(id) => identity.nguid = Some(*id),
                Descriptor::Eui64(id) => identity.eui64 = Some(*id),
                Descriptor::Csi(_) => {}
            }
        }
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_nvme::identify::LbaFormat;

    fn facts(change: impl Fn(&mut IdentifyController)) -> Facts {
        let mut id = IdentifyController::zeroed();
        id.oncs = 0xffff.into();
        change(&mut id);
        let mut facts = Facts::default();
        // MQES 127, TO 30 units, 4 KiB pages.
        facts.set_capabilities(0x0800_0820_1e00_007f);
        facts.set_controller(&id);
        facts
    }

    fn namespace(lbads: u8, metadata: u16) -> IdentifyNamespace {
        let mut id = IdentifyNamespace::zeroed();
        id.nsze = 1000.into();
        id.flbas = 2;
        id.lbaf[2] = LbaFormat {
            ms: metadata.into(),
            lbads,
            rp: 0,
        };
        id
    }

    fn info(facts: &Facts, lbads: u8) -> NamespaceInfo {
        let found = facts.namespace(7, &namespace(lbads, 0), Identity::default());
        found.expect("a namespace")
    }

    fn limits(facts: &Facts, lbads: u8) -> Limits {
        facts.limits(&info(facts, lbads))
    }

    #[test]
    fn commands_stay_within_mdts() {
        for (mdts, blocks) in [(0, 256), (1, 2), (5, 32), (7, 128), (30, 256), (255, 256)] {
            let facts = facts(|id| id.mdts = mdts);
            assert_eq!(limits(&facts, 12).transfer_blocks, blocks, "MDTS {mdts}");
            assert_eq!(limits(&facts, 9).transfer_blocks, blocks * 8);
        }
    }

    #[test]
    fn queues_stay_within_mqes_and_maxcmd() {
        let facts = facts(|_| {});
        assert_eq!(facts.queue_entries(1000), 128);
        assert_eq!(facts.queue_entries(16), 16);
        assert_eq!(facts.queue_commands(128), 127);
        let narrow = self::facts(|id| id.maxcmd = 9.into());
        assert_eq!(narrow.queue_commands(128), 9);
        assert_eq!(narrow.queue_commands(4), 3);
        assert_eq!(facts.ready_time, Nanos::from_secs(15));
    }

    #[test]
    fn data_in_capsules() {
        for (ioccsz, icdoff, bytes) in [(0, 0, 0), (4, 0, 0), (516, 0, 8192), (516, 1, 0)] {
            let facts = facts(|id| {
                id.ioccsz = ioccsz.into();
                id.icdoff = icdoff.into();
            });
            assert_eq!(facts.capsule_data, bytes, "{ioccsz} {icdoff}");
        }
        let huge = facts(|id| id.ioccsz = u32::MAX.into());
        assert_eq!(huge.capsule_data, TRANSFER_BYTES_MAX);
    }

    #[test]
    fn commands_that_are_not_there_are_not_sent() {
        let all = facts(|id| id.mdts = 5);
        let limits = self::limits(&all, 12);
        assert_eq!((limits.zeroes_blocks, limits.ranges), (32, 256));
        assert_eq!((limits.range_blocks, limits.has_compare), (u32::MAX, true));
        let mut said = all;
        let mut id = NvmController::zeroed();
        (id.dmrl, id.dmrsl) = (8, 100.into());
        said.set_command_set(&id);
        let limits = self::limits(&said, 12);
        // WZSL 0 is no limit but that of the field.
        assert_eq!(limits.zeroes_blocks, 65_536);
        assert_eq!((limits.ranges, limits.range_blocks), (8, 100));
        id.wzsl = 4;
        said.set_command_set(&id);
        assert_eq!(self::limits(&said, 12).zeroes_blocks, 16);
        let none = facts(|id| id.oncs = 0.into());
        let limits = self::limits(&none, 12);
        assert_eq!((limits.zeroes_blocks, limits.range_blocks), (0, 0));
        assert!(!limits.has_compare && !info(&none, 12).has_deallocate);
    }

    #[test]
    fn formats_that_cannot_be_used() {
        let facts = facts(|_| {});
        for (lbads, metadata) in [(12, 8), (13, 0), (0, 0), (63, 0), (10, 0)] {
            let id = namespace(lbads, metadata);
            let found = facts.namespace(1, &id, Identity::default());
            assert_eq!(found, None, "{lbads} {metadata}");
        }
        let mut huge = namespace(12, 0);
        huge.nsze = (u64::MAX / 4).into();
        assert_eq!(facts.namespace(1, &huge, Identity::default()), None);
    }
}
