//! Features (spec: base 2.0 §5.27.1, nvm 1.0 §4.1.3).

use crate::opcode;
use crate::sqe::Sqe;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Feature identifiers that are spoken here.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Feature {
            $($(#[$doc])* $name = $code,)*
        }

        impl Feature {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

features! {
    /// Arbitration.
    Arbitration = 0x01,
    /// Power Management.
    PowerManagement = 0x02,
    /// Temperature Threshold.
    TemperatureThreshold = 0x04,
    /// Error Recovery.
    ErrorRecovery = 0x05,
    /// Volatile Write Cache.
    VolatileWriteCache = 0x06,
    /// Number of Queues.
    NumberOfQueues = 0x07,
    /// Write Atomicity Normal.
    WriteAtomicity = 0x0a,
    /// Asynchronous Event Configuration.
    AsyncEvents = 0x0b,
    /// Keep Alive Timer.
    KeepAlive = 0x0f,
    /// Host Behavior Support; 512 bytes of data.
    HostBehavior = 0x16,
    /// I/O Command Set Profile.
    CommandSetProfile = 0x19,
    /// Host Identifier; 8 or 16 bytes of data.
    HostIdentifier = 0x81,
}

/// Bytes of Host Behavior Support.
pub const HOST_BEHAVIOR_BYTES: usize = 512;

/// What a host says that it keeps to (spec: base 2.0 §5.27.1.18). The rest of it is for features that are not here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostBehavior {
    /// ACRE: it waits as long as a status tells before it tries again.
    pub waits_to_retry: bool,
}

impl HostBehavior {
    /// From its data; `None` where a field has a reserved value, or the length is wrong.
    #[must_use]
    pub fn decode(data: &[u8]) -> Option<Self> {
        let is_whole = data.len() == HOST_BEHAVIOR_BYTES;
        let acre = data.first().filter(|acre| is_whole && **acre <= 1)?;
        Some(Self {
            waits_to_retry: *acre == 1,
        })
    }

    /// As data.
    #[must_use]
    pub fn encode(self) -> [u8; HOST_BEHAVIOR_BYTES] {
        let mut data = [0; HOST_BEHAVIOR_BYTES];
        data[0] = u8::from(self.waits_to_retry);
        data
    }
}

/// Which value Get Features is asked for, SEL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Select {
    /// The one in force.
    Current = 0,
    /// The default.
    Default = 1,
    /// The saved one.
    Saved = 2,
    /// Whether it can be saved, changed, set per namespace.
    Supported = 3,
}

/// The feature can be changed, in the answer to [`Select::Supported`].
pub const CHANGEABLE: u32 = 1 << 2;

impl Feature {
    /// The feature with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|feature| *feature as u8 == code)
    }

    /// Feature of a Get or Set Features.
    #[must_use]
    pub fn of(sqe: &Sqe) -> Option<Self> {
        Self::from_code((sqe.cdw(10) & 0xff) as u8)
    }

    /// Get Features of the value in force.
    #[must_use]
    pub fn get(self, cid: u16) -> Sqe {
        let mut sqe = Sqe::new(opcode::admin::GET_FEATURES, cid, 0);
        sqe.set_cdw(10, u32::from(self as u8));
        sqe
    }

    /// Set Features.
    #[must_use]
    pub fn set(self, cid: u16, value: u32) -> Sqe {
        let mut sqe = Sqe::new(opcode::admin::SET_FEATURES, cid, 0);
        sqe.set_cdw(10, u32::from(self as u8));
        sqe.set_cdw(11, value);
        sqe
    }
}

/// SEL of a Get Features; `None` for reserved values.
#[must_use]
pub fn select(sqe: &Sqe) -> Option<Select> {
    match sqe.cdw(10) >> 8 & 7 {
        0 => Some(Select::Current),
        1 => Some(Select::Default),
        2 => Some(Select::Saved),
        3 => Some(Select::Supported),
        _ => None,
    }
}

/// SV of a Set Features: the value is to survive a reset.
#[must_use]
pub fn is_save(sqe: &Sqe) -> bool {
    sqe.cdw(10) >> 31 != 0
}

/// Value of Number of Queues for that many submission and completion queues.
///
/// # Panics
/// For no queues.
#[must_use]
pub fn queue_counts(queues: u16) -> u32 {
    assert!(queues > 0, "at least one I/O queue");
    let minus_one = u32::from(queues - 1);
    minus_one | minus_one << 16
}
