//! The quorum and the choice of a label, by enumeration.
//!
//! Story: every session crashes after its labels reached any subset of the drives they were meant
//! for; the next one sees any subset of the drives. Whatever was committed must be what it adopts,
//! or the base of what it adopts.

use crate::common::{ME, POOL, Rng, geometry, name};
use std::collections::BTreeSet;
use varve_pool::label::{
    Change, ChangeError, Finding, ImportError, Label, LabelState, Member, MemberId, MemberState,
    MemberTable, Role, TableGeneration, Terms, Voters, choose, rests_on_one,
};

fn table(fast: u32, dense: u32) -> MemberTable {
    let member = |id| Member {
        id: MemberId(id),
        role: if id < fast { Role::Fast } else { Role::Dense },
        slot: (if id < fast { id } else { id - fast }) as u8,
        state: MemberState::Active,
        held_all: true,
        size_bytes: 1 << 30,
        since: TableGeneration::ZERO,
    };
    MemberTable::new((0..fast + dense).map(member).collect()).unwrap()
}

const TERMS: Terms = Terms {
    owner: ME,
    take_over: false,
    accept_loss: false,
};

fn label_state(generation: TableGeneration, members: MemberTable) -> LabelState {
    LabelState {
        pool: POOL,
        name: name(),
        generation,
        epoch: 1,
        owner: ME,
        heartbeat: 0,
        clean: false,
        unfinished: false,
        geometry: geometry(),
        members,
    }
}

fn has(mask: u32) -> impl Fn(MemberId) -> bool {
    move |id| mask & (1 << id.0) != 0
}

#[test]
fn two_quorums_share_a_voter() {
    for set in 1_u32..1 << 6 {
        let ids = (0..6)
            .filter(|id| set & (1 << id) != 0)
            .map(MemberId)
            .collect();
        let voters = Voters::new(ids);
        let quorums: Vec<u32> = (0..1 << 6)
            .filter(|mask| voters.is_quorum(has(*mask)))
            .collect();
        assert!(quorums.contains(&set), "all voters are a quorum");
        for a in &quorums {
            let complement = set & !a;
            assert!(
                !voters.is_quorum(has(complement)),
                "{set:b} {a:b}: both halves decide"
            );
            assert!(quorums.iter().all(|b| a & b & set != 0));
        }
        let lowest = set & set.wrapping_neg();
        for mask in (0..1 << 6).filter(|mask| mask & set == *mask) {
            let needed = voters.needed(mask & lowest != 0);
            let enough = mask.count_ones() as usize >= needed;
            assert_eq!(enough, voters.is_quorum(has(mask)), "{set:b} {mask:b}");
        }
    }
    assert!(!Voters::default().is_quorum(|_| true));
}

/// Loses `ids` in one generation; true if those that remain can commit it.
fn can_lose(table: &mut MemberTable, generation: TableGeneration, ids: &[u32], up: u32) -> bool {
    for id in ids {
        table
            .apply(Change::Lose(MemberId(*id)), generation)
            .unwrap();
    }
    table.deciders(generation).is_quorum(has(up))
}

#[test]
fn two_and_two_survives_one_of_each() {
    for fast in [0, 1] {
        for dense in [2, 3] {
            for order in [[fast, dense], [dense, fast]] {
                let mut table = table(2, 2);
                let mut up = 0b1111;
                for (count, id) in (2..).zip(order) {
                    up &= !(1 << id);
                    let generation = TableGeneration::new(1, count);
                    assert!(can_lose(&mut table, generation, &[id], up), "{order:?}");
                }
            }
            // At one instant: the half with the lowest id goes on, the other must not.
            let up = 0b1111 & !(1 << fast) & !(1 << dense);
            let at_once = can_lose(
                &mut table(2, 2),
                TableGeneration::new(1, 2),
                &[fast, dense],
                up,
            );
            assert_eq!(at_once, fast != 0, "fast {fast} dense {dense}");
        }
    }
}

#[test]
fn a_full_table_gives_up_tombstones_but_no_id() {
    let mut full = table(1, 99);
    let join = Change::Join {
        role: Role::Dense,
        slot: 99,
        size_bytes: 1,
    };
    let at = |count| TableGeneration::new(1, count);
    assert_eq!(full.apply(join, at(2)), Err(ChangeError::TableFull));
    let last = MemberId(99);
    full.apply(Change::Lose(last), at(2)).unwrap();
    full.apply(Change::Remove(last), at(3)).unwrap();
    assert_eq!(full.apply(join, at(4)), Ok(MemberId(100)));
    assert_eq!((full.members().len(), full.get(last)), (100, None));
    let another = Change::Join {
        role: Role::Dense,
        slot: 98,
        size_bytes: 1,
    };
    assert_eq!(full.apply(another, at(5)), Err(ChangeError::TableFull));
    let none = MemberId(99);
    assert_eq!(
        full.apply(Change::Lose(none), at(5)),
        Err(ChangeError::NoMember { id: none })
    );
}

/// A slot has one member in use; whoever was lost there before stays until its successor is rebuilt,
/// unless it was never complete itself.
#[test]
fn a_slot_is_handed_over() {
    let mut table = table(2, 2);
    let at = |count| TableGeneration::new(1, count);
    let join = Change::Join {
        role: Role::Dense,
        slot: 1,
        size_bytes: 1,
    };
    let id = MemberId(3);
    let taken = ChangeError::SlotTaken {
        role: Role::Dense,
        slot: 1,
        id,
    };
    let state = |table: &MemberTable, id| table.get(MemberId(id)).unwrap().state;
    assert_eq!(table.apply(join, at(2)), Err(taken));
    table.apply(Change::Lose(id), at(2)).unwrap();
    assert_eq!(table.apply(join, at(3)), Ok(MemberId(4)));
    assert!(matches!(
        table.apply(Change::Return(id), at(4)),
        Err(ChangeError::SlotTaken { .. })
    ));
    table.apply(Change::Lose(MemberId(4)), at(4)).unwrap();
    assert_eq!(table.apply(join, at(5)), Ok(MemberId(5)));
    assert_eq!(state(&table, 3), MemberState::Lost);
    assert_eq!(state(&table, 4), MemberState::Removed);
    table.apply(Change::Rebuilt(MemberId(5)), at(6)).unwrap();
    assert_eq!(state(&table, 3), MemberState::Removed);
    assert_eq!(table.occupant(Role::Dense, 1).unwrap().id, MemberId(5));
    assert_eq!((table.slots(Role::Fast), table.slots(Role::Dense)), (2, 2));
    let rows = table.members().to_vec();
    let twice = rows.iter().map(|row| Member { slot: 0, ..*row });
    assert!(MemberTable::new(twice.collect()).is_err());
}

/// The newest data is on a drive that is away. A drive that was lost while it was being rebuilt is
/// no substitute; one that was complete once is, and whoever was being rebuilt in its slot yields.
#[test]
fn only_a_complete_drive_is_promoted() {
    let generation = TableGeneration::new(1, 5);
    let row = |id, slot, state, held_all, since| Member {
        id: MemberId(id),
        role: Role::Fast,
        slot,
        state,
        held_all,
        size_bytes: 1,
        since: TableGeneration::new(1, since),
    };
    let (stale, newest) = (
        row(0, 0, MemberState::Lost, true, 2),
        row(1, 1, MemberState::Active, true, 1),
    );
    let accept = Terms {
        accept_loss: true,
        ..TERMS
    };
    for state in [MemberState::Lost, MemberState::Rebuilding] {
        let half = row(2, 0, state, false, 3);
        let members = MemberTable::new(vec![stale, newest, half]).unwrap();
        let found = |own| {
            let own = MemberId(own);
            let state = label_state(generation, members.clone());
            Finding::Label(Label { own, state })
        };
        let import = choose(POOL, &[found(0), found(2)], accept).unwrap();
        assert_eq!(import.loss.unwrap().promoted(), Some(MemberId(0)));
        assert!(matches!(
            choose(POOL, &[found(2)], accept),
            Err(ImportError::NoFast { .. })
        ));
    }
}

/// One label as the model keeps it: what it says, and which commit it was proposed upon.
#[derive(Clone, PartialEq, Eq)]
struct Held {
    generation: TableGeneration,
    epoch: u32,
    members: MemberTable,
}

/// All drives, and the last commit.
#[derive(Clone)]
struct Model {
    drives: Vec<Option<Held>>,
    committed: Held,
    /// Every proposal: (generation, generation of the commit it stands on).
    bases: Vec<(TableGeneration, TableGeneration)>,
}

/// Source of decisions: drawn, or enumerated depth first.
trait Decide {
    fn below(&mut self, end: u32) -> u32;
}

impl Decide for Rng {
    fn below(&mut self, end: u32) -> u32 {
        Rng::below(self, u64::from(end)) as u32
    }
}

/// Runs a body once for every sequence of decisions it can take.
#[derive(Default)]
struct Every {
    taken: Vec<(u32, u32)>,
    at: usize,
}

impl Decide for Every {
    fn below(&mut self, end: u32) -> u32 {
        if self.at == self.taken.len() {
            self.taken.push((0, end));
        }
        let (value, _) = self.taken[self.at];
        self.at += 1;
        value
    }
}

impl Every {
    /// On to the next sequence; false when all are done.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((value, end)) = self.taken.pop() {
            if value + 1 < end {
                self.taken.push((value + 1, end));
                return true;
            }
        }
        false
    }
}

impl Model {
    fn new(fast: u32, dense: u32) -> Self {
        let generation = TableGeneration::new(0, 1);
        let members = table(fast, dense);
        let held = Held {
            generation,
            epoch: 0,
            members,
        };
        let drives = vec![Some(held.clone()); (fast + dense) as usize];
        let bases = vec![(generation, generation)];
        Self {
            drives,
            committed: held,
            bases,
        }
    }

    fn find(&self, up: u32) -> Vec<Finding> {
        let drives = self.drives.iter().enumerate();
        drives
            .map(|(index, held)| match held {
                Some(held) if up & (1 << index) != 0 => Finding::Label(Label {
                    own: MemberId(index as u32),
                    state: LabelState {
                        epoch: held.epoch,
                        ..label_state(held.generation, held.members.clone())
                    },
                }),
                _ => Finding::Blank,
            })
            .collect()
    }

    /// Writes `held` to some of `targets` that are up; true if that is a quorum of them, which
    /// commits it upon the commit before.
    fn propose(&mut self, held: &Held, targets: &Voters, up: u32, by: &mut dyn Decide) -> bool {
        self.bases
            .push((held.generation, self.committed.generation));
        let mut reached = 0;
        for id in targets.ids() {
            if up & (1 << id.0) != 0 && by.below(2) == 1 {
                reached |= 1 << id.0;
                let index = id.0 as usize;
                self.drives.resize(self.drives.len().max(index + 1), None);
                self.drives[index] = Some(held.clone());
            }
        }
        let is_committed = targets.is_quorum(has(reached));
        if is_committed {
            self.committed = held.clone();
        }
        is_committed
    }

    /// The labels and the commit, as text.
    fn print(&self) -> String {
        let labels = self.drives.iter().flatten();
        let text = |held: &Held| format!("{} {} {:?}", held.generation, held.epoch, held.members);
        labels.chain([&self.committed]).map(text).collect()
    }

    /// An import with these drives, one change, each write cut off anywhere.
    fn session(&mut self, up: u32, by: &mut dyn Decide) {
        let terms = Terms {
            owner: ME,
            ..Terms::default()
        };
        let Ok(import) = choose(POOL, &self.find(up), terms) else {
            return;
        };
        let adopted = import.state;
        let base = self
            .bases
            .iter()
            .find(|(generation, _)| *generation == adopted.generation);
        let is_end = adopted.generation == self.committed.generation
            || base.is_some_and(|(_, base)| *base == self.committed.generation);
        assert!(
            is_end,
            "adopted {} past {}",
            adopted.generation, self.committed.generation
        );
        for present in &import.present {
            let row = self.committed.members.get(present.id);
            let was_lost = row.is_some_and(|row| row.state == MemberState::Lost);
            let is_stale = was_lost && present.state == MemberState::Active;
            assert!(!is_stale, "{} is stale", present.id);
        }
        let (deciders, voters) = (
            adopted.members.deciders(adopted.generation),
            adopted.members.voters(),
        );
        let mut claimed = 0;
        for (index, held) in self.drives.iter_mut().enumerate() {
            let id = MemberId(index as u32);
            let is_asked = deciders.contains(id) || voters.contains(id);
            if let Some(held) = held
                && is_asked
                && up & (1 << index) != 0
                && by.below(2) == 1
            {
                held.epoch = import.epoch;
                claimed |= 1 << index;
            }
        }
        if !deciders.is_quorum(has(claimed)) || !voters.is_quorum(has(claimed)) {
            return;
        }
        let generation = TableGeneration::new(import.epoch, 1);
        let members = adopted.members.moved(adopted.generation, generation);
        let mut held = Held {
            generation,
            epoch: import.epoch,
            members,
        };
        let deciders = held.members.deciders(generation);
        if !self.propose(&held, &deciders, up, by) {
            return;
        }
        self.change(&mut held, up, by);
    }

    /// One or two steps of members in one generation, then perhaps its second write.
    fn change(&mut self, held: &mut Held, up: u32, by: &mut dyn Decide) {
        held.generation = held.generation.next();
        let count = held.members.members().len() as u32;
        let steps = 1 + by.below(2);
        for _ in 0..steps {
            let id = MemberId(by.below(count));
            let state = held.members.get(id).unwrap();
            if state.since == held.generation {
                continue;
            }
            let change = match state.state {
                MemberState::Lost if by.below(2) == 1 => Change::Remove(id),
                MemberState::Lost => Change::Return(id),
                MemberState::Rebuilding if by.below(2) == 1 => Change::Rebuilt(id),
                MemberState::Removed if count < 7 => Change::Join {
                    role: Role::Dense,
                    slot: by.below(2) as u8,
                    size_bytes: 1,
                },
                _ => Change::Lose(id),
            };
            let _ = held.members.apply(change, held.generation);
        }
        let deciders = held.members.deciders(held.generation);
        if self.propose(held, &deciders, up, by) {
            held.generation = held.generation.next();
            let voters = held.members.voters();
            self.propose(held, &voters, up, by);
        }
    }
}

/// All histories of two sessions of a pool of two.
#[test]
fn every_history_of_two_drives() {
    for (fast, dense) in [(1, 1), (2, 0)] {
        let mut every = Every::default();
        let mut histories = 0_u64;
        loop {
            let mut model = Model::new(fast, dense);
            for _ in 0..2 {
                let up = every.below(1 << (fast + dense));
                model.session(up, &mut every);
            }
            let up = every.below(1 << (fast + dense));
            check_choice(&model, up);
            histories += 1;
            if !every.advance() {
                break;
            }
        }
        assert!(
            histories > 10_000,
            "{histories} histories of {fast}+{dense}"
        );
    }
}

/// Every way one session of larger pools can go (each label on any subset), then every set of
/// drives at the next import, then random sessions upon that.
#[test]
fn every_session_of_three_drives() {
    let mut every = Every::default();
    let mut ends = BTreeSet::new();
    let mut rng = Rng::new(5);
    loop {
        let mut model = Model::new(2, 1);
        model.session(0b111, &mut every);
        let print = model.print();
        if ends.insert(print) {
            for up in 0..8 {
                check_choice(&model, up);
            }
            for _ in 0..50 {
                let mut model = model.clone();
                for _ in 0..4 {
                    let up = Decide::below(&mut rng, 8);
                    model.session(up, &mut Biased(&mut rng));
                }
            }
        }
        if !every.advance() {
            break;
        }
    }
    assert!(ends.len() > 200, "{} ends of one session", ends.len());
}

/// The deciders read from a table are the voters of the one before it, whatever happened: pools of
/// up to six drives, up to three changes of one or two steps each.
#[test]
fn deciders_are_the_voters_before() {
    fn steps(table: &MemberTable) -> Vec<Change> {
        let ids = table.members().iter().map(|member| member.id);
        let mut steps: Vec<_> = ids
            .flat_map(|id| {
                [
                    Change::Lose(id),
                    Change::Return(id),
                    Change::Rebuilt(id),
                    Change::Remove(id),
                ]
            })
            .collect();
        if table.members().len() < 6 {
            steps.push(Change::Join {
                role: Role::Fast,
                slot: 1,
                size_bytes: 1,
            });
        }
        steps
    }
    fn descend(table: &MemberTable, count: u32, seen: &mut u64) {
        let generation = TableGeneration::new(1, count);
        for first in steps(table) {
            let mut one = table.clone();
            if one.apply(first, generation).is_err() {
                continue;
            }
            let mut tables = vec![one.clone()];
            for second in steps(&one) {
                let mut two = one.clone();
                let id = match second {
                    Change::Lose(id)
                    | Change::Return(id)
                    | Change::Rebuilt(id)
                    | Change::Remove(id) => id,
                    Change::Join { .. } => MemberId(u32::MAX),
                };
                let has_stepped = two.get(id).is_some_and(|row| row.since == generation);
                if !has_stepped && count < 3 && two.apply(second, generation).is_ok() {
                    tables.push(two);
                }
            }
            for next in tables {
                assert_eq!(next.deciders(generation), table.voters(), "{next:?}");
                let again = TableGeneration::new(2, 1);
                let moved = next.moved(generation, again);
                assert_eq!(moved.deciders(again), table.voters());
                assert_eq!(next.deciders(generation.next()), next.voters(), "settled");
                *seen += 1;
                if count < 3 {
                    descend(&next, count + 1, seen);
                }
            }
        }
    }
    let mut seen = 0;
    for (fast, dense) in [(1, 1), (2, 1), (2, 2), (2, 4)] {
        descend(&table(fast, dense), 1, &mut seen);
    }
    assert!(seen > 10_000, "{seen} tables");
}

fn check_choice(model: &Model, up: u32) {
    struct Never;
    impl Decide for Never {
        fn below(&mut self, _end: u32) -> u32 {
            0
        }
    }
    model.clone().session(up, &mut Never);
}

/// Long random histories of pools of up to six drives.
#[test]
fn long_histories_of_larger_pools() {
    let mut generations = BTreeSet::new();
    for seed in 0..60_000 {
        let mut rng = Rng::new(seed);
        let (fast, dense) = [(1, 1), (2, 1), (2, 2), (2, 3), (2, 4), (3, 3)][rng.index(6)];
        let mut model = Model::new(fast, dense);
        for _ in 0..1 + rng.index(7) {
            let bits = 1 << model.drives.len().min(20);
            // Mostly many drives, or nothing would ever be committed.
            let up = Decide::below(&mut rng, bits) | Decide::below(&mut rng, bits);
            let mut biased = Biased(&mut rng);
            model.session(up, &mut biased);
        }
        generations.insert(model.committed.generation);
    }
    assert!(generations.len() > 10, "histories were long");
}

/// Yes four times out of five: quorums are reached often, and missed often.
struct Biased<'a>(&'a mut Rng);

impl Decide for Biased<'_> {
    fn below(&mut self, end: u32) -> u32 {
        if end == 2 {
            return u32::from(!self.0.one_in(5));
        }
        Decide::below(self.0, end)
    }
}

/// One drive may be lost of every pool whose log has copies, but for that which is said to rest on one.
#[test]
fn only_a_pool_of_two_fast_drives_rests_on_one() {
    for (fast, dense) in (2..=5).flat_map(|fast| (0..=5).map(move |dense| (fast, dense))) {
        let voters = Voters::new((0..fast + dense).map(MemberId).collect());
        let stops = |lost: u32| !voters.is_quorum(|id| id != MemberId(lost));
        let stopping: Vec<_> = (0..fast + dense).filter(|lost| stops(*lost)).collect();
        let rests = rests_on_one(fast as usize, dense as usize);
        assert_eq!(stopping == [0], rests, "{fast} fast, {dense} dense");
        assert_eq!(stopping.is_empty(), !rests, "{fast} fast, {dense} dense");
    }
}
