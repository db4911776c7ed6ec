//! A host and a target in one memory, connected by pipes that give bytes in pieces of any length.
//!
//! Everything that can go on goes on in an order that a seed draws: bytes of either direction, answers
//! of the backend, time. Faults end connections for both sides, or for the host alone while the
//! target still finds bytes in its pipe.

use crate::{Action, Completion, Config, ConnectionId, Event, Host, Operation, Times};
use std::collections::{BTreeMap, VecDeque};
use std::string::ToString;
use std::vec;
use std::vec::Vec;
use varve_io::{Blocks, Gather, Target as Memory};
use varve_nvme::Nqn;
use varve_target::{
    Action as Order, Completion as Answer, ConnectionId as TargetId, Hosts, Listener, Namespace,
    Operation as Task, Subsystem, Target,
};
use varve_units::Nanos;

pub const BLOCK: usize = 4096;
pub const DISK_BLOCKS: u64 = 1024;
const NQN: &str = "nqn.2026-11.io.varve:test";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

/// Random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A connection. The target's end may outlive the host's.
struct Pipe {
    target: TargetId,
    to_target: VecDeque<u8>,
    to_host: VecDeque<u8>,
    /// The host ended its direction.
    is_host_done: bool,
    /// The host knows nothing of it any more.
    is_host_gone: bool,
    /// The target closed it.
    is_target_done: bool,
    /// What the host sent last is under way until then.
    held_until: Nanos,
}

pub struct Net {
    pub host: Host,
    pub target: Target<Vec<u8>>,
    pub disk: Vec<u8>,
    pub now: Nanos,
    pub random: Random,
    pub events: Vec<Event>,
    pub completions: Vec<Completion>,
    /// Connects are refused.
    pub is_down: bool,
    /// Orders are executed only by hand.
    pub is_held: bool,
    pub orders: Vec<Order>,
    pipes: BTreeMap<ConnectionId, Pipe>,
    connecting: Vec<ConnectionId>,
}

pub fn config() -> Config {
    let nqn = Nqn::new(NQN).expect("a name");
    let host = Nqn::new(HOST).expect("a name");
    Config::new(nqn, None, host, [0x42; 16])
}

pub fn namespace(blocks: u64) -> Namespace {
    Namespace {
        blocks,
        nguid: [7; 16],
        uuid: [9; 16],
        is_volatile: true,
        is_thin: true,
        atomic_blocks: 512,
    }
}

pub fn target() -> Target<Vec<u8>> {
    let listener = Listener {
        advertise: "192.0.2.1:4420".parse().expect("an address"),
        is_discovery: false,
    };
    let nqn = Nqn::new(NQN).expect("a name");
    let (serial, firmware) = ("VARVE0001".to_string(), "0.1".to_string());
    let subsystem = Subsystem::new(nqn, serial, firmware, Hosts::Any, vec![listener]);
    let mut target = Target::new(subsystem);
    let put = target.put_namespace(1, namespace(DISK_BLOCKS));
    put.expect("a good namespace");
    target
}

pub fn read(lba: u64, blocks: usize) -> Operation {
    let into = Memory::Data(Blocks::zeroed(blocks));
    Operation::Read { lba, into }
}

/// Blocks that say which they are.
pub fn gather(seed: u64, lba: u64, blocks: usize) -> Gather {
    let mut gather = Gather::new();
    // In pieces, as the engine has them.
    for (index, lba) in (lba..lba + blocks as u64).enumerate() {
        let mut block = Blocks::zeroed(1);
        block.bytes_mut().copy_from_slice(&content(seed, lba));
        gather.push_data(block);
        assert_eq!(gather.bytes(), (index as u64 + 1) * BLOCK as u64);
    }
    gather
}

pub fn content(seed: u64, lba: u64) -> Vec<u8> {
    if seed == 0 {
        return vec![0; BLOCK];
    }
    let mut random = Random(seed << 32 ^ lba);
    let words = (0..BLOCK / 8).flat_map(|_| random.next().to_le_bytes());
    words.collect()
}

impl Net {
    pub fn new(seed: u64, config: Config) -> Self {
        let now = Nanos::from_secs(100);
        Self {
            host: Host::new(now, config),
            target: target(),
            disk: vec![0; DISK_BLOCKS as usize * BLOCK],
            now,
            random: Random(seed),
            events: Vec::new(),
            completions: Vec::new(),
            is_down: false,
            is_held: false,
            orders: Vec::new(),
            pipes: BTreeMap::new(),
            connecting: Vec::new(),
        }
    }

    /// Does one thing, if there is one to do without time passing.
    pub fn step(&mut self) -> bool {
        self.collect();
        let kinds = self.random.below(4);
        (0..4).any(|kind| match (kinds + kind) % 4 {
            0 => self.feed_target(),
            1 => self.feed_host(),
            2 => !self.is_held && self.execute_one(),
            _ => self.connect_one(),
        })
    }

    /// Takes what the host says.
    fn collect(&mut self) {
        while let Some(action) = self.host.next_action() {
            match action {
                Action::Connect(id) => self.connecting.push(id),
                Action::Close(id) => {
                    self.send(id);
                    let pipe = self.pipes.get_mut(&id).expect("a connection");
                    pipe.is_host_done = true;
                }
                Action::Drop(id) => {
                    self.connecting.retain(|other| *other != id);
                    if let Some(pipe) = self.pipes.get_mut(&id) {
                        pipe.is_host_done = true;
                        pipe.is_host_gone = true;
                    }
                }
            }
        }
        while let Some(id) = self.host.next_woken() {
            self.send(id);
        }
        while let Some(event) = self.host.next_event() {
            self.events.push(event);
        }
        while let Some(completion) = self.host.next_completion() {
            self.completions.push(completion);
        }
    }

    fn send(&mut self, id: ConnectionId) {
        let segments = self.host.transmit(self.now, id);
        let Some(pipe) = self.pipes.get_mut(&id) else {
            assert!(segments.is_empty(), "sends before it is connected");
            return;
        };
        for segment in segments {
            pipe.to_target.extend(segment.as_ref());
        }
    }

    fn connect_one(&mut self) -> bool {
        if self.connecting.is_empty() {
            return false;
        }
        let index = self.random.below(self.connecting.len() as u64) as usize;
        let id = self.connecting.swap_remove(index);
        if self.is_down {
            self.host.closed(self.now, id, true);
            return true;
        }
        let target = self.target.accept(self.now).expect("room");
        let pipe = Pipe {
            target,
            to_target: VecDeque::new(),
            to_host: VecDeque::new(),
            is_host_done: false,
            is_host_gone: false,
            is_target_done: false,
            held_until: self.now,
        };
        self.pipes.insert(id, pipe);
        self.host.connected(id);
        true
    }

    /// A pipe with something for that side.
    fn any(&mut self, has: impl Fn(&Pipe) -> bool) -> Option<ConnectionId> {
        let ids = self.pipes.iter().filter(|(_, pipe)| has(pipe));
        let ids: Vec<_> = ids.map(|(id, _)| *id).collect();
        let count = ids.len() as u64;
        (count > 0).then(|| ids[self.random.below(count) as usize])
    }

    /// Some bytes, cut anywhere: mostly few, at times all.
    fn piece(random: &mut Random, bytes: &mut VecDeque<u8>) -> Vec<u8> {
        let most = match random.below(3) {
            0 => 30,
            1 => 5000,
            _ => 1 << 20,
        };
        let count = (1 + random.below(most) as usize).min(bytes.len());
        bytes.drain(..count).collect()
    }

    fn feed_target(&mut self) -> bool {
        let now = self.now;
        let has = |pipe: &Pipe| {
            let has_some = !pipe.to_target.is_empty() || pipe.is_host_done;
            !pipe.is_target_done && has_some && pipe.held_until <= now
        };
        let Some(id) = self.any(has) else {
            return false;
        };
        let pipe = self.pipes.get_mut(&id).expect("just found");
        if pipe.to_target.is_empty() {
            self.close_at_target(id);
            return true;
        }
        let bytes = Self::piece(&mut self.random, &mut pipe.to_target);
        let taken = self.target.receive(self.now, pipe.target, &bytes);
        bytes[taken..]
            .iter()
            .rev()
            .for_each(|byte| pipe.to_target.push_front(*byte));
        self.after_target();
        true
    }

    fn close_at_target(&mut self, id: ConnectionId) {
        let pipe = self.pipes.get_mut(&id).expect("a connection");
        pipe.is_target_done = true;
        let target = pipe.target;
        self.target.closed(target);
        self.after_target();
    }

    /// Takes what the target says.
    fn after_target(&mut self) {
        while let Some(order) = self.target.next_action() {
            self.orders.push(order);
        }
        while let Some(woken) = self.target.next_woken() {
            let found = self.pipes.iter_mut().find(|(_, one)| one.target == woken);
            let (id, pipe) = found.expect("a connection of the target");
            for segment in self.target.transmit(woken) {
                pipe.to_host.extend(segment.as_ref());
            }
            let id = *id;
            if self.target.is_closing(woken) {
                self.close_at_target(id);
            }
        }
    }

    fn feed_host(&mut self) -> bool {
        let has =
            |pipe: &Pipe| !pipe.is_host_gone && (!pipe.to_host.is_empty() || pipe.is_target_done);
        let Some(id) = self.any(has) else {
            return false;
        };
        let pipe = self.pipes.get_mut(&id).expect("just found");
        if pipe.to_host.is_empty() {
            pipe.is_host_gone = true;
            self.host.closed(self.now, id, true);
            return true;
        }
        let bytes = Self::piece(&mut self.random, &mut pipe.to_host);
        self.host.receive(self.now, id, &bytes);
        true
    }

    fn execute_one(&mut self) -> bool {
        if self.orders.is_empty() {
            return false;
        }
        let index = self.random.below(self.orders.len() as u64) as usize;
        let order = self.orders.swap_remove(index);
        self.execute(order);
        true
    }

    /// The backend carries out an order.
    pub fn execute(&mut self, order: Order) {
        let answer = self.perform(order.operation);
        self.target.complete(order.connection, order.tag, answer);
        self.after_target();
    }

    /// The backend refuses an order for now, and the host hears of it.
    pub fn put_off(&mut self, order: &Order) {
        let refusal = Err(varve_target::Failure::NotReady);
        self.target.complete(order.connection, order.tag, refusal);
        self.after_target();
    }

    fn perform(&mut self, task: Task) -> Answer<Vec<u8>> {
        let bytes =
            |lba: u64, blocks: u32| lba as usize * BLOCK..(lba as usize + blocks as usize) * BLOCK;
        match task {
            Task::Read { lba, blocks } => return Ok(Some(self.disk[bytes(lba, blocks)].to_vec())),
            Task::Write { lba, data, .. } => {
                let range = bytes(lba, (data.len() / BLOCK) as u32);
                self.disk[range].copy_from_slice(&data);
            }
            Task::WriteZeroes { lba, blocks, .. } => self.disk[bytes(lba, blocks)].fill(0),
            Task::Deallocate { ranges } => {
                for (lba, blocks) in ranges {
                    self.disk[bytes(lba, blocks)].fill(0);
                }
            }
            Task::Flush => {}
        }
        Ok(None)
    }

    /// Goes on to the next point in time at which something is due, not further than `span`.
    pub fn wait(&mut self, span: Nanos) {
        let held = self.pipes.values().map(|pipe| pipe.held_until);
        let held = held.filter(|at| *at > self.now).min();
        let due = [self.host.deadline(), self.target.deadline(), held];
        let next = due.into_iter().flatten().min();
        let until = self.now + span;
        self.now = next.unwrap_or(until).clamp(self.now, until);
        self.host.tick(self.now);
        self.target.tick(self.now, self.now);
        self.after_target();
        self.collect();
    }

    /// Ends a connection. The host alone may know of it: what is in the pipe then still arrives,
    /// within the time after which the target has closed it in any case.
    pub fn cut(&mut self, is_secret: bool) -> bool {
        let Some(id) = self.any(|pipe| !pipe.is_host_gone && !pipe.is_target_done) else {
            return false;
        };
        let pipe = self.pipes.get_mut(&id).expect("just found");
        pipe.is_host_gone = true;
        pipe.held_until = self.now + Nanos::from_millis(self.random.below(4000));
        if !is_secret {
            pipe.to_target.clear();
            self.close_at_target(id);
        }
        self.host.closed(self.now, id, !is_secret);
        true
    }

    /// Changes a byte on its way to the host.
    pub fn damage(&mut self, at: usize) -> bool {
        let Some(id) = self.any(|pipe| !pipe.to_host.is_empty()) else {
            return false;
        };
        let bytes = &mut self.pipes.get_mut(&id).expect("just found").to_host;
        let at = at % bytes.len();
        bytes[at] ^= 1 << (at % 8);
        true
    }

    /// Lets everything happen until `is_done`, time included, for a while.
    ///
    /// # Panics
    /// If it does not come.
    pub fn until(&mut self, what: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        let end = self.now + Nanos::from_secs(600);
        loop {
            self.collect();
            if is_done(self) {
                return;
            }
            assert!(self.now < end, "{what}: {:?}", self.events);
            if !self.step() {
                self.wait(Nanos::from_secs(1));
            }
        }
    }

    pub fn ready(&mut self) {
        self.until("ready", |net| net.host.is_ready());
    }

    /// A request to its end.
    pub fn run(&mut self, operation: Operation) -> Completion {
        let now = self.now;
        self.host.submit(now, u64::MAX, operation);
        self.until("a completion", |net| {
            net.completions.iter().any(|one| one.id == u64::MAX)
        });
        let mut all = self.completions.iter();
        let index = all.position(|one| one.id == u64::MAX).expect("just seen");
        self.completions.swap_remove(index)
    }

    pub fn bytes(completion: Completion) -> Vec<u8> {
        match completion.memory {
            Some(Memory::Data(blocks)) => blocks.bytes().to_vec(),
            _ => panic!("no data: {:?}", completion.result),
        }
    }
}

/// Short times, so that runs are.
pub fn brisk() -> Times {
    Times {
        keep_alive: Nanos::from_secs(2),
        ..Times::default()
    }
}
