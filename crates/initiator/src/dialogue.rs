//! The admin queue's commands one after another: from a connected queue to a usable namespace or a
//! discovery log, what has to be read again after an event, and the shutdown.
//!
//! ```text
//! Capabilities → Enable → Ready → Controller → Events ┬→ Queues → CommandSet → List → Namespace → Descriptors → over
//!                                                     └→ LogHead → LogBody… → LogCheck → over
//! Changed → Namespace → Descriptors → over
//! Shutdown → ShutdownWait → over
//! ```
//!
//! **Not here**: the queue that carries them, Keep Alive, requests for events.

use crate::config::Purpose;
use crate::error::Loss;
use crate::facts::{Facts, Identity, NamespaceInfo};
use crate::queue::Done;
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_nvme::discovery::{DiscoveryHeader, Found, read_log};
use varve_nvme::fabrics::PropertyAccess;
use varve_nvme::feature::{Feature, queue_counts};
use varve_nvme::identify::{
    Cns, Identify, IdentifyController, IdentifyNamespace, NvmController, read_descriptors,
    read_namespace_list,
};
use varve_nvme::log::{CHANGED_BYTES, GetLogPage, LogId};
use varve_nvme::property::{self, Configuration, ControllerStatus, Shutdown};
use varve_nvme::{IDENTIFY_BYTES, Sqe};
use varve_units::Nanos;
use zerocopy::FromBytes;

/// Time between two looks at CSTS.
const LOOK: Nanos = Nanos::from_millis(20);
/// Longest time a shutdown may take. Arbitrary; a normal one writes back caches.
const SHUTDOWN_TIME_MAX: Nanos = Nanos::from_secs(30);
/// Entries of a discovery log that are read. Arbitrary: 4 MiB of a peer's bytes.
const LOG_ENTRIES_MAX: u64 = 4096;
/// Times a discovery log that changes while it is read is read again.
const LOG_TRIES_MAX: u32 = 5;
const LOG_ENTRY_BYTES: u64 = 1024;

/// Where the dialogue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Capabilities,
    Enable,
    Ready { until: Nanos },
    Controller,
    Events,
    Queues,
    CommandSet,
    List,
    Namespace,
    Descriptors,
    LogHead,
    LogBody,
    LogCheck,
    Changed,
    Shutdown,
    ShutdownWait { until: Nanos },
}

/// What comes after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The next command.
    Send,
    /// The next command, not before then.
    Wait(Nanos),
    /// The dialogue is over.
    Over,
}

/// The dialogue, and what was learnt from it.
pub(crate) struct Dialogue {
    pub step: Step,
    pub facts: Facts,
    pub namespace: Option<NamespaceInfo>,
    /// Entries of the discovery log.
    pub log: Vec<Found>,
    purpose: Purpose,
    queues_wanted: u16,
    /// Data of the command in flight.
    data: Vec<u8>,
    nsid: u32,
    identified: Option<Box<IdentifyNamespace>>,
    log_bytes: Vec<u8>,
    log_len: u64,
    log_tries: u32,
    configuration: Configuration,
}

impl Dialogue {
    pub fn new(purpose: Purpose, queues_wanted: u16) -> Self {
        Self {
            step: Step::Capabilities,
            facts: Facts::default(),
            namespace: None,
            log: Vec::new(),
            purpose,
            queues_wanted,
            data: Vec::new(),
            nsid: match purpose {
                Purpose::Namespace(nsid) => nsid.unwrap_or(0),
                Purpose::Discovery => 0,
            },
            identified: None,
            log_bytes: Vec::new(),
            log_len: 0,
            log_tries: 0,
            configuration: Configuration::default(),
        }
    }

    /// Begins anew behind the start.
    pub fn begin(&mut self, step: Step) {
        self.step = step;
        self.log_tries = 0;
    }

    /// Data of the command in flight.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// What a failed step is called.
    const fn name(&self) -> &'static str {
        match self.step {
            Step::Capabilities => "reading CAP",
            Step::Enable => "enabling the controller",
            Step::Ready { .. } => "reading CSTS",
            Step::Controller => "Identify Controller",
            Step::Events => "asking for events",
            Step::Queues => "asking for I/O queues",
            Step::CommandSet => "Identify of the NVM command set",
            Step::List => "listing namespaces",
            Step::Namespace => "Identify Namespace",
            Step::Descriptors => "reading identifiers",
            Step::LogHead | Step::LogBody | Step::LogCheck => "reading the discovery log",
            Step::Changed => "reading the list of changed namespaces",
            Step::Shutdown => "asking for a shutdown",
            Step::ShutdownWait { .. } => "waiting for the shutdown",
        }
    }

    /// The command of this step and the bytes it gives.
    pub fn command(&mut self) -> (Sqe, u32) {
        self.data.clear();
        let get = |offset, is_wide| PropertyAccess {
            offset,
            is_wide,
            value: 0,
        };
        match self.step {
            Step::Capabilities => (get(property::CAP, true).get(0), 0),
            Step::Enable => {
                self.configuration = Configuration::enabled(self.facts.css);
                (set_configuration(self.configuration), 0)
            }
            Step::Ready { .. } | Step::ShutdownWait { .. } => {
                (get(property::CSTS, false).get(0), 0)
            }
            Step::Controller => identify(Cns::Controller, 0),
            Step::Events => (Feature::AsyncEvents.set(0, self.facts.events), 0),
            Step::Queues => {
                let value = queue_counts(self.queues_wanted);
                (Feature::NumberOfQueues.set(0, value), 0)
            }
            Step::CommandSet => identify(Cns::SetController, 0),
            Step::List => identify(Cns::ActiveNamespaces, 0),
            Step::Namespace => identify(Cns::Namespace, self.nsid),
            Step::Descriptors => identify(Cns::Descriptors, self.nsid),
            Step::LogHead => log(LogId::Discovery, 0, LOG_ENTRY_BYTES, true),
            Step::LogBody => {
                let offset = self.log_bytes.len() as u64;
                let len = (self.log_len - offset).min(self.facts.transfer_bytes.into());
                log(LogId::Discovery, offset, len, true)
            }
            // Not retained: further changes are told again.
            Step::LogCheck => log(LogId::Discovery, 0, LOG_ENTRY_BYTES, false),
            Step::Changed => log(LogId::ChangedNamespaces, 0, CHANGED_BYTES as u64, false),
            Step::Shutdown => {
                let down = self.configuration.with_shutdown(Shutdown::Normal);
                (set_configuration(down), 0)
            }
        }
    }

    /// The answer to it.
    pub fn answered(&mut self, now: Nanos, done: &Done) -> Result<Turn, Loss> {
        let what = self.name();
        let status = done.status;
        if !status.is_success() && !self.is_optional() {
            return Err(Loss::Command { what, status });
        }
        let is_good = status.is_success() && done.is_whole && !done.is_bad;
        if status.is_success() && !is_good {
            return Err(Loss::ShortData { what });
        }
        self.go_on(now, done.result, is_good)
    }

    /// True if the controller may lack the command: it is younger than NVMe 1.0 or 1.3.
    const fn is_optional(&self) -> bool {
        matches!(
            self.step,
            Step::CommandSet | Step::Descriptors | Step::Events
        )
    }

    fn go_on(&mut self, now: Nanos, result: u64, is_good: bool) -> Result<Turn, Loss> {
        let next = match self.step {
            Step::Capabilities => {
                self.facts.set_capabilities(result);
                Step::Enable
            }
            Step::Enable => Step::Ready {
                until: now + self.facts.ready_time,
            },
            Step::Ready { until } => {
                let status = ControllerStatus::from_bits((result & 0xffff_ffff) as u32);
                match (status.fatal, status.ready) {
                    (true, _) => return Err(Loss::FatalController),
                    (false, false) => return wait(now, until),
                    (false, true) => Step::Controller,
                }
            }
            Step::Controller => {
                let id: IdentifyController = self.structure()?;
                self.facts.set_controller(&id);
                match self.facts.events {
                    0 => self.after_events(),
                    _ => Step::Events,
                }
            }
            Step::Events => {
                if !is_good {
                    self.facts.events = 0;
                }
                self.after_events()
            }
            Step::Queues => {
                let given = (result & 0xffff).min(result >> 16 & 0xffff) + 1;
                self.facts.queues = given.min(self.queues_wanted.into()) as u16;
                Step::CommandSet
            }
            Step::CommandSet => self.take_command_set(is_good)?,
            Step::List => {
                let first = read_namespace_list(&self.data).first().copied();
                self.nsid = first.ok_or(Loss::NoNamespace)?;
                Step::Namespace
            }
            Step::Namespace => {
                let id: IdentifyNamespace = self.structure()?;
                if id.nsze.get() == 0 {
                    return Err(Loss::NoNamespace);
                }
                self.identified = Some(Box::new(id));
                Step::Descriptors
            }
            Step::Descriptors => return self.take_namespace(is_good),
            Step::LogHead | Step::LogBody | Step::LogCheck => return self.read_log(),
            Step::Changed => Step::Namespace,
            Step::Shutdown => Step::ShutdownWait {
                until: now + SHUTDOWN_TIME_MAX,
            },
            Step::ShutdownWait { until } => {
                let status = ControllerStatus::from_bits((result & 0xffff_ffff) as u32);
                let is_over = status.shutdown_complete || status.fatal;
                return if is_over {
                    Ok(Turn::Over)
                } else {
                    wait(now, until)
                };
            }
        };
        self.step = next;
        Ok(Turn::Send)
    }

    const fn after_events(&self) -> Step {
        match self.purpose {
            Purpose::Namespace(_) => Step::Queues,
            Purpose::Discovery => Step::LogHead,
        }
    }

    fn structure<T: FromBytes>(&self) -> Result<T, Loss> {
        let what = self.name();
        T::read_from_bytes(&self.data).map_err(|_| Loss::ShortData { what })
    }

    fn take_command_set(&mut self, is_known: bool) -> Result<Step, Loss> {
        if is_known {
            let id: NvmController = self.structure()?;
            self.facts.set_command_set(&id);
        }
        Ok(match self.nsid {
            0 => Step::List,
            _ => Step::Namespace,
        })
    }

    /// Size and identifiers are known.
    fn take_namespace(&mut self, has_descriptors: bool) -> Result<Turn, Loss> {
        let identity = if has_descriptors {
            Identity::of(&read_descriptors(&self.data))
        } else {
            Identity::default()
        };
        let id = self.identified.take().ok_or(Loss::NoNamespace)?;
        let namespace = self.facts.namespace(self.nsid, &id, identity);
        let namespace = namespace.ok_or(Loss::Format)?;
        if let Some(before) = self.namespace
            && !is_same(&before, &namespace)
        {
            return Err(Loss::OtherNamespace);
        }
        self.namespace = Some(namespace);
        Ok(Turn::Over)
    }

    /// Header, entries in pieces, header again: the same generation says that they belong together.
    fn read_log(&mut self) -> Result<Turn, Loss> {
        let (header, _) = DiscoveryHeader::read_from_prefix(match self.step {
            Step::LogBody => &self.log_bytes,
            _ => &self.data,
        })
        .map_err(|_| Loss::BadLog)?;
        self.step = match self.step {
            Step::LogHead => {
                let entries = header.numrec.get();
                if entries > LOG_ENTRIES_MAX {
                    return Err(Loss::BadLog);
                }
                self.log_len = (entries + 1) * LOG_ENTRY_BYTES;
                self.log_bytes = core::mem::take(&mut self.data);
                if entries == 0 {
                    Step::LogCheck
                } else {
                    Step::LogBody
                }
            }
            Step::LogBody => {
                self.log_bytes.append(&mut self.data);
                if (self.log_bytes.len() as u64) < self.log_len {
                    Step::LogBody
                } else {
                    Step::LogCheck
                }
            }
            _ => {
                let (before, entries) = read_log(&self.log_bytes).ok_or(Loss::BadLog)?;
                if before.genctr == header.genctr {
                    // Entries of other transports are of no use.
                    let found = entries.iter().filter_map(|one| Found::try_from(one).ok());
                    self.log = found.collect();
                    self.log_bytes = Vec::new();
                    return Ok(Turn::Over);
                }
                self.log_tries += 1;
                if self.log_tries >= LOG_TRIES_MAX {
                    return Err(Loss::BadLog);
                }
                Step::LogHead
            }
        };
        Ok(Turn::Send)
    }
}

fn wait(now: Nanos, until: Nanos) -> Result<Turn, Loss> {
    if now >= until {
        return Err(Loss::NotReady);
    }
    Ok(Turn::Wait(now + LOOK))
}

/// True if it is the same namespace as before; its size and state may have changed.
pub(crate) fn is_same(before: &NamespaceInfo, now: &NamespaceInfo) -> bool {
    (before.nsid, before.block_bytes, before.identity) == (now.nsid, now.block_bytes, now.identity)
}

fn set_configuration(configuration: Configuration) -> Sqe {
    let access = PropertyAccess {
        offset: property::CC,
        is_wide: false,
        value: configuration.0.into(),
    };
    access.set(0)
}

fn identify(cns: Cns, nsid: u32) -> (Sqe, u32) {
    let command = Identify {
        cns,
        cntid: 0,
        csi: 0,
        nsid,
    };
    (command.to_sqe(0), IDENTIFY_BYTES as u32)
}

fn log(id: LogId, offset: u64, len: u64, rae: bool) -> (Sqe, u32) {
    let page = GetLogPage {
        lid: id as u8,
        lsp: 0,
        rae,
        len,
        offset,
        by_index: false,
        csi: 0,
    };
    (page.to_sqe(0, 0), len as u32)
}
