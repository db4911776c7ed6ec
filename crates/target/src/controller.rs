//! A controller: properties, events, errors, keep alive. One association.

use crate::clock::Clock;
use crate::connection::ConnectionId;
use crate::features::Features;
use crate::warnings::Warnings;
use crate::{ASYNC_EVENTS_MAX, QUEUE_ENTRIES_MAX};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use varve_nvme::Nqn;
use varve_nvme::event::Notice;
use varve_nvme::identify::ControllerKind;
use varve_nvme::log::ErrorEntry;
use varve_nvme::property::{Capabilities, Configuration, ControllerStatus, Shutdown};
use varve_units::Nanos;

/// Entries of the error log (ELPE + 1).
pub const ERRORS_MAX: usize = 16;
/// Granularity of keep alive in units of 100 ms (KAS): a second.
pub const KAS: u16 = 10;
/// What a controller supports.
pub const CAPABILITIES: Capabilities = Capabilities {
    mqes: QUEUE_ENTRIES_MAX - 1,
    timeout: 60,
};

const _: () = assert!(ASYNC_EVENTS_MAX <= 256);

/// A host: its name and identifier.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Host {
    pub nqn: Nqn,
    pub id: [u8; 16],
}

/// One controller.
#[derive(Debug)]
pub(crate) struct Controller {
    pub cntlid: u16,
    pub kind: ControllerKind,
    pub host: Host,
    /// Connection of its admin queue.
    pub admin: ConnectionId,
    /// Connections of its I/O queues.
    pub queues: BTreeMap<u16, ConnectionId>,
    pub configuration: Configuration,
    pub status: ControllerStatus,
    /// The association is over; what is left of it is being closed.
    pub is_ended: bool,
    pub features: Features,
    /// Last command on any queue.
    pub heard: Nanos,
    /// Notices not reported yet.
    pending: BTreeSet<Notice>,
    /// Notices reported whose log was not read yet.
    masked: BTreeSet<Notice>,
    /// Namespaces changed since their list was read.
    pub changed: BTreeSet<u32>,
    pub errors: VecDeque<ErrorEntry>,
    pub error_count: u64,
}

/// Milliseconds without a command after which a controller for discovery is given up, if its host said none: the default of
/// transports that need keep alive (spec: base 2.0a §5.27.1.12, 1D4C0h).
const DISCOVERY_KATO_MS: u32 = 120_000;

/// What setting CC leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    None,
    /// Enabled to disabled: I/O queues go.
    Reset,
    /// A shutdown begins.
    Shutdown,
}

impl Controller {
    pub fn new(
        cntlid: u16,
        kind: ControllerKind,
        host: Host,
        admin: ConnectionId,
        now: Nanos,
        kato_ms: u32,
    ) -> Self {
        Self {
            cntlid,
            kind,
            features: Features::new(host.id, kato_ms),
            host,
            admin,
            queues: BTreeMap::new(),
            configuration: Configuration::default(),
            status: ControllerStatus::default(),
            is_ended: false,
            heard: now,
            pending: BTreeSet::new(),
            masked: BTreeSet::new(),
            changed: BTreeSet::new(),
            errors: VecDeque::new(),
            error_count: 0,
        }
    }

    /// When it is given up if nothing is heard. One for discovery always is: whoever asks what there is says
    /// no time and may be gone without a word.
    pub fn deadline(&self) -> Option<Nanos> {
        self.timeout().map(|timeout| self.heard + timeout)
    }

    fn timeout(&self) -> Option<Nanos> {
        let kato = match (self.features.kato_ms(), self.kind) {
            (0, ControllerKind::Discovery) => DISCOVERY_KATO_MS,
            (kato, _) => kato,
        };
        (kato > 0).then(|| Nanos::from_millis(u64::from(kato)))
    }

    /// Its host sent a command, or anything while it was about to be given up.
    pub fn hear(&mut self, clock: Clock, now: Nanos) {
        let timeout = self.timeout();
        let heard = timeout.map_or(now, |timeout| clock.heard(now, timeout));
        self.heard = self.heard.max(heard);
    }

    /// Sets CC (spec: base 2.0 §3.1.3.5, §3.5, §3.6).
    pub fn configure(&mut self, new: Configuration) -> Change {
        let old = core::mem::replace(&mut self.configuration, new);
        let mut change = Change::None;
        if new.shutdown() != Shutdown::None && old.shutdown() == Shutdown::None {
            self.status.shutdown_busy = true;
            change = Change::Shutdown;
        }
        match (old.enable(), new.enable()) {
            (false, true) => {
                let is_good = new.mps() == 0
                    && new.ams() == 0
                    && matches!(new.css(), 0 | 6)
                    && new.entry_sizes() == (6, 4);
                self.status = ControllerStatus {
                    ready: is_good,
                    fatal: !is_good,
                    ..ControllerStatus::default()
                };
            }
            (true, false) => {
                self.status = ControllerStatus::default();
                self.pending.clear();
                self.masked.clear();
                self.changed.clear();
                self.features.reset();
                change = Change::Reset;
            }
            _ => {}
        }
        change
    }

    /// Ends a shutdown that was begun, unless a reset came between.
    pub fn finish_shutdown(&mut self, is_flushed: bool) {
        if self.status.shutdown_busy {
            self.status.shutdown_busy = false;
            self.status.shutdown_complete = true;
            // A shutdown that could not flush must not look like one in good order.
            self.status.fatal |= !is_flushed;
        }
    }

    /// True if commands other than fabrics are taken.
    pub fn is_ready(&self) -> bool {
        self.status.ready
    }

    /// Something happened that the host may want to know.
    pub fn raise(&mut self, notice: Notice) {
        self.raise_by(notice, notice.bits());
    }

    /// The same where only these bits of its configuration let it be told.
    fn raise_by(&mut self, notice: Notice, bits: u32) {
        if self.features.async_events() & bits != 0 {
            self.pending.insert(notice);
        }
    }

    /// Bits of Critical Warning became set; what is not told yet and over is not told at all.
    pub fn warn(&mut self, fresh: Warnings, all: Warnings) {
        if all == Warnings::default() {
            self.pending.remove(&Notice::Reliability);
        }
        self.raise_by(Notice::Reliability, fresh.bits().into());
    }

    /// A notice to report now, masked from now on.
    pub fn next_notice(&mut self) -> Option<Notice> {
        let open = |notice: &&Notice| !self.masked.contains(notice);
        let notice = *self.pending.iter().find(open)?;
        self.pending.remove(&notice);
        self.masked.insert(notice);
        Some(notice)
    }

    /// The log of a notice was read: the next one may be reported.
    pub fn unmask(&mut self, notice: Notice) {
        self.masked.remove(&notice);
    }

    /// Remembers an error for the error log.
    pub fn log_error(&mut self, mut entry: ErrorEntry) {
        self.error_count += 1;
        entry.error_count = self.error_count.into();
        self.errors.push_front(entry);
        self.errors.truncate(ERRORS_MAX);
    }
}
