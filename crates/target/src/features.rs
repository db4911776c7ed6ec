//! Get Features and Set Features (spec: base 2.0 §5.15, §5.27).

use crate::admin::{Outcome, Reply};
use crate::controller::{Controller, KAS};
use crate::shared::Shared;
use crate::{IO_QUEUES_MAX, io};
use alloc::collections::BTreeMap;
use varve_nvme::feature::{
    CHANGEABLE, Feature, HOST_BEHAVIOR_BYTES, HostBehavior, Select, is_save, queue_counts, select,
};
use varve_nvme::identify::ControllerKind;
use varve_nvme::{Sqe, Status};

/// Temperature that is never reached: the default threshold, in kelvin.
const NO_THRESHOLD: u32 = 0xffff;

/// Data of Host Behavior Support.
const BEHAVIOR_BYTES: u32 = HOST_BEHAVIOR_BYTES as u32;

/// Features of one controller.
#[derive(Debug)]
pub(crate) struct Features {
    host_id: [u8; 16],
    behavior: HostBehavior,
    values: BTreeMap<Feature, u32>,
}

/// Bits that may be set; `None` for a feature that cannot be changed.
fn changeable(feature: Feature, kind: ControllerKind) -> Option<u32> {
    match feature {
        Feature::Arbitration => Some(0xffff_ff07),
        Feature::TemperatureThreshold | Feature::ErrorRecovery => Some(0xffff),
        Feature::WriteAtomicity => Some(1),
        Feature::AsyncEvents => Some(io::configurable_events(kind)),
        Feature::KeepAlive => Some(u32::MAX),
        // Its data; the command has no bits of it.
        Feature::HostBehavior => Some(0),
        _ => None,
    }
}

/// True if a controller of this kind has the feature.
pub(crate) const fn has(feature: Feature, kind: ControllerKind) -> bool {
    match feature {
        Feature::AsyncEvents | Feature::KeepAlive | Feature::HostIdentifier => true,
        _ => matches!(kind, ControllerKind::Io),
    }
}

impl Features {
    pub fn new(host_id: [u8; 16], kato_ms: u32) -> Self {
        let mut features = Self {
            host_id,
            behavior: HostBehavior::default(),
            values: BTreeMap::new(),
        };
        features.set_kato(kato_ms);
        features
    }

    /// A controller level reset: all at their defaults but what Connect said, as its association goes on
    /// (spec: base 2.0 §3.7.2).
    pub fn reset(&mut self) {
        self.behavior = HostBehavior::default();
        self.values
            .retain(|feature, _| *feature == Feature::KeepAlive);
    }

    /// Keep-alive timeout in milliseconds, 0 for none.
    pub fn kato_ms(&self) -> u32 {
        self.value(Feature::KeepAlive)
    }

    /// True if the host waits as long as a status tells it before it tries again.
    pub fn waits_to_retry(&self) -> bool {
        self.behavior.waits_to_retry
    }

    /// AEC.
    pub fn async_events(&self) -> u32 {
        self.value(Feature::AsyncEvents)
    }

    /// Sets the timeout, rounded up to the granularity.
    fn set_kato(&mut self, kato_ms: u32) {
        let step = u32::from(KAS) * 100;
        let rounded = kato_ms.checked_next_multiple_of(step).unwrap_or(kato_ms);
        self.values.insert(Feature::KeepAlive, rounded);
    }

    fn value(&self, feature: Feature) -> u32 {
        let set = self.values.get(&feature).copied();
        set.unwrap_or_else(|| default(feature))
    }
}

fn default(feature: Feature) -> u32 {
    match feature {
        Feature::NumberOfQueues => queue_counts(IO_QUEUES_MAX),
        Feature::VolatileWriteCache => 1,
        Feature::TemperatureThreshold => NO_THRESHOLD,
        _ => 0,
    }
}

/// The feature a command names, if this controller has it.
fn named(controller: &Controller, sqe: &Sqe) -> Result<Feature, Reply> {
    let feature = Feature::of(sqe).filter(|f| has(*f, controller.kind));
    let feature = feature.ok_or(Status::InvalidField)?;
    // One threshold: over temperature of the composite sensor.
    if feature == Feature::TemperatureThreshold && sqe.cdw(11) >> 16 & 0x3f != 0 {
        return Err(Status::InvalidField.into());
    }
    Ok(feature)
}

/// Get Features.
pub(crate) fn get(controller: &Controller, sqe: &Sqe) -> Result<Outcome, Reply> {
    let feature = named(controller, sqe)?;
    let select = select(sqe).ok_or(Status::InvalidField)?;
    if feature == Feature::HostBehavior && select != Select::Supported {
        let behavior = match select {
            Select::Current => controller.features.behavior,
            _ => HostBehavior::default(),
        };
        return Ok(Outcome::Data(behavior.encode().to_vec()));
    }
    let value = match select {
        Select::Supported => match changeable(feature, controller.kind) {
            Some(_) => CHANGEABLE,
            None => 0,
        },
        // Nothing is saved: the saved value is the default.
        Select::Default | Select::Saved => default(feature),
        Select::Current if feature == Feature::HostIdentifier => {
            if !is_extended(sqe) {
                return Err(Status::InvalidField.into());
            }
            return Ok(Outcome::Data(controller.features.host_id.to_vec()));
        }
        Select::Current => controller.features.value(feature),
    };
    Ok(Outcome::Reply(u64::from(value)))
}

/// Bytes of data of Get Features.
pub(crate) fn data_bytes(sqe: &Sqe) -> u32 {
    if Feature::of(sqe) == Some(Feature::HostBehavior) {
        let has_data = select(sqe).is_some_and(|select| select != Select::Supported);
        return if has_data { BEHAVIOR_BYTES } else { 0 };
    }
    let is_host_id = Feature::of(sqe) == Some(Feature::HostIdentifier);
    match (is_host_id && select(sqe) == Some(Select::Current), sqe) {
        (false, _) => 0,
        (true, sqe) if is_extended(sqe) => 16,
        // Refused, but not for its length.
        (true, _) => 8,
    }
}

/// Bytes of data of Set Features, from the host.
pub(crate) fn sent_bytes(sqe: &Sqe) -> u32 {
    match Feature::of(sqe) {
        Some(Feature::HostBehavior) => BEHAVIOR_BYTES,
        _ => 0,
    }
}

/// EXHID: hosts of fabrics have identifiers of 128 bits (spec: base 2.0 §5.27.1.25).
fn is_extended(sqe: &Sqe) -> bool {
    sqe.cdw(11) & 1 != 0
}

/// Set Features, with the data that the host sent.
pub(crate) fn set(
    shared: &mut Shared,
    cntlid: u16,
    sqe: &Sqe,
    data: &[u8],
) -> Result<Outcome, Reply> {
    let controller = &shared.controllers[&cntlid];
    let feature = named(controller, sqe)?;
    if is_save(sqe) {
        return Err(Status::FeatureNotSaveable.into());
    }
    let value = sqe.cdw(11);
    let has_queues = !controller.queues.is_empty();
    let kind = controller.kind;
    let controller = shared.controllers.get_mut(&cntlid);
    let features = &mut controller.expect("looked up above").features;
    match feature {
        Feature::NumberOfQueues => {
            // The counts are 0-based; 65,535 is reserved (spec: base 2.0 §5.27.1.5).
            let (submission, completion) = (value & 0xffff, value >> 16);
            if submission == 0xffff || completion == 0xffff {
                return Err(Status::InvalidField.into());
            }
            if has_queues {
                return Err(Status::SequenceError.into());
            }
            let given = u32::from(IO_QUEUES_MAX - 1).min(submission).min(completion);
            let value = given | given << 16;
            features.values.insert(feature, value);
            Ok(Outcome::Reply(u64::from(value)))
        }
        Feature::HostBehavior => {
            features.behavior = HostBehavior::decode(data).ok_or(Status::InvalidField)?;
            Ok(Outcome::Reply(0))
        }
        Feature::KeepAlive => {
            features.set_kato(value);
            Ok(Outcome::Reply(0))
        }
        // Kept at what it is; another value would be a lie.
        Feature::PowerManagement | Feature::CommandSetProfile | Feature::VolatileWriteCache => {
            if value == features.value(feature) {
                return Ok(Outcome::Reply(0));
            }
            Err(Status::FeatureNotChangeable.into())
        }
        _ => match changeable(feature, kind) {
            Some(bits) => {
                features.values.insert(feature, value & bits);
                Ok(Outcome::Reply(0))
            }
            None => Err(Status::FeatureNotChangeable.into()),
        },
    }
}

impl Features {
    /// I/O queues the host may connect.
    pub fn io_queues(&self) -> u16 {
        (self.value(Feature::NumberOfQueues) & 0xffff) as u16 + 1
    }
}
