//! One block as a linearizable register that also survives crashes.
//!
//! All operations that wrote or returned one value form a *cluster*. Its `first_end` is the
//! earliest response among them, its `last_begin` the latest invocation. In every legal order the
//! operations of a cluster stand together, so cluster A stands before cluster B if some operation
//! of A ended before some operation of B began: `A.first_end < B.last_begin`. The history is
//! linearizable exactly if no two clusters stand before one another.
//!
//! After a crash a block holds the value of some cluster that does not stand before a durable one.
//! Which one is open until the first read; then it is fixed for good.
//!
//! **Invariants**: moments are unique over a run; a cluster that is removed stood before a durable
//! cluster, and `floor` remembers that, or never happened.
//!
//! # Source
//! Gibbons, Korach: Testing Shared Memories, SIAM J. Comput. 26 (1997), the case of unique values.
//!
//! **Not here**: what several blocks promise together (`prefix`), volumes.

use crate::content::WriteId;

/// A moment of the run: the number of an invocation or response.
pub type Moment = u64;

/// Later than every moment.
pub const NEVER: Moment = Moment::MAX;

/// How often a write may take effect before it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Once.
    Once,
    /// Again and again, over crashes too: its host sends it until it is answered.
    Repeated,
    /// The same, but it is several commands: those that were answered need not be sent again.
    RepeatedInParts,
}

/// A value and the operations that wrote or returned it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// The write; 0 for the zeroes a block begins with.
    pub id: WriteId,
    /// True if the value is zeroes.
    pub is_zero: bool,
    /// When the write was invoked.
    pub invoked: Moment,
    /// When its host sent it first, whatever crashes came since.
    pub sent: Moment,
    /// When the write was acknowledged.
    pub acknowledged: Moment,
    /// Earliest response of the cluster.
    pub first_end: Moment,
    /// Latest invocation of the cluster.
    pub last_begin: Moment,
    /// True once the value survives any crash.
    pub is_durable: bool,
    /// How often the write may have taken effect before it ended.
    pub effect: Effect,
    /// Values a crash left that may have come after this one, although it ended later: its last effect here may
    /// have been before the crash.
    pub beside: Vec<WriteId>,
    /// When the write was answered, well or not.
    pub ended: Moment,
    /// When it was refused in this life: it may have taken effect before, and will not any more.
    pub refused: Moment,
}

impl Cluster {
    /// True if this stands before `other` in every legal order.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        other.is_behind(self.id, self.first_end)
    }

    /// True if this stands behind the value `id`, one of whose operations ended at `end`.
    fn is_behind(&self, id: WriteId, end: Moment) -> bool {
        end < self.last_begin && !self.beside.contains(&id)
    }

    /// True if its host sends it again until it is answered.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.effect != Effect::Once
    }

    /// When it took effect at the latest, if it did.
    fn settled(&self) -> Moment {
        self.first_end.min(self.refused)
    }

    /// True if it can still take effect once more, whatever happens.
    fn is_afloat(&self) -> bool {
        self.is_repeated() && self.ended == NEVER
    }

    /// The same after a crash at which it was afloat: it is sent again at `again`, but what `survivors` hold
    /// may have come after such of its parts as are not.
    fn sent_again(mut self, again: Moment, survivors: &[Self]) -> Self {
        if self.effect == Effect::RepeatedInParts {
            let beside = survivors.iter();
            let beside = beside.filter(|one| !self.is_behind(one.id, one.settled()));
            let mut beside: Vec<WriteId> = beside.map(|one| one.id).collect();
            // Zeroes that survive are one value.
            let zeroes = survivors.iter().filter(|one| one.is_zero);
            let zeroes: Vec<WriteId> = zeroes.map(|one| one.id).collect();
            if zeroes.iter().any(|zero| beside.contains(zero)) {
                beside.extend(zeroes);
            }
            self.beside = beside;
        }
        self.invoked = again;
        self.last_begin = again;
        self
    }
}

/// Why a read may not have returned what it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A value that was certainly overwritten, or fixed away by a crash.
    Stale,
    /// Zeroes where no order of the writes allows them.
    Lost,
}

/// The state of the checker for one block.
#[derive(Clone, Debug)]
pub struct Register {
    clusters: Vec<Cluster>,
    /// Latest beginning among removed clusters.
    floor: Moment,
    /// What the block may hold since the last crash, until a read tells; empty once it has.
    open: Vec<Cluster>,
    /// The moment of that crash.
    crashed: Moment,
    /// What the block was known to be at earlier crashes that some read has outlived, the last one
    /// included.
    outlived: Vec<Self>,
    /// Of those: the moment at which it ended.
    until: Moment,
}

impl Register {
    /// A block that reads as zeroes since `moment`.
    #[must_use]
    pub fn new(moment: Moment) -> Self {
        let zeroes = Cluster {
            id: 0,
            is_zero: true,
            invoked: moment,
            sent: moment,
            acknowledged: moment,
            first_end: moment,
            last_begin: moment,
            is_durable: true,
            effect: Effect::Once,
            beside: Vec::new(),
            ended: moment,
            refused: NEVER,
        };
        Self {
            clusters: vec![zeroes],
            floor: 0,
            open: Vec::new(),
            crashed: 0,
            outlived: Vec::new(),
            until: NEVER,
        }
    }

    /// A write began.
    pub fn invoke(&mut self, id: WriteId, is_zero: bool, moment: Moment) {
        self.settle();
        self.clusters.push(Cluster {
            id,
            is_zero,
            invoked: moment,
            sent: moment,
            acknowledged: NEVER,
            first_end: NEVER,
            last_begin: moment,
            is_durable: false,
            effect: Effect::Once,
            beside: Vec::new(),
            ended: NEVER,
            refused: NEVER,
        });
    }

    /// The write that was just invoked may take effect several times until it is answered, each block of one
    /// that is sent `in_parts` as often as its part.
    pub fn repeat(&mut self, id: WriteId, in_parts: bool) {
        if let Some(cluster) = self.find(id) {
            cluster.effect = match in_parts {
                true => Effect::RepeatedInParts,
                false => Effect::Repeated,
            };
        }
    }

    /// A write failed: it may have taken effect, and will not any more.
    pub fn give_up(&mut self, id: WriteId, moment: Moment) {
        if let Some(cluster) = self.find(id) {
            cluster.ended = moment;
            cluster.refused = moment;
        }
    }

    fn find(&mut self, id: WriteId) -> Option<&mut Cluster> {
        self.clusters.iter_mut().find(|cluster| cluster.id == id)
    }

    /// A write was acknowledged. `oldest` is the earliest invocation still outstanding anywhere;
    /// `flushed` the moment through which acknowledged writes are durable.
    pub fn acknowledge(
        &mut self,
        id: WriteId,
        moment: Moment,
        is_durable: bool,
        oldest: Moment,
        flushed: Moment,
    ) {
        if let Some(cluster) = self.find(id) {
            cluster.ended = moment;
            cluster.acknowledged = moment;
            cluster.first_end = cluster.first_end.min(moment);
            cluster.is_durable |= is_durable;
        }
        self.prune(oldest, flushed);
    }

    /// A write that its host would send again was acknowledged, but by an answer that had been on its way when the
    /// power failed: it took effect before that, and what the block held then is it or what came after.
    pub fn acknowledge_late(&mut self, id: WriteId, moment: Moment, is_durable: bool) {
        let crashed = self.crashed;
        let Some(cluster) = self.find(id) else {
            return;
        };
        let sent = cluster.sent;
        cluster.ended = moment;
        cluster.acknowledged = moment;
        cluster.invoked = sent;
        cluster.last_begin = sent;
        cluster.first_end = crashed;
        cluster.is_durable = true;
        if is_durable {
            let overwritten = |one: &Cluster| one.first_end < sent;
            let gone: Vec<WriteId> = self
                .open
                .iter()
                .filter(|one| overwritten(one))
                .map(|one| one.id)
                .collect();
            self.clusters
                .retain(|one| one.id == id || !gone.contains(&one.id));
        }
    }

    /// A read from `begun` to `ended` returned write `id`.
    ///
    /// # Errors
    /// If no legal order allows that.
    pub fn returned(&mut self, id: WriteId, begun: Moment, ended: Moment) -> Result<(), Wrong> {
        if self.was_answered(begun, |was| was.returned_alive(id, begun, was.until)) {
            return Ok(());
        }
        self.returned_alive(id, begun, ended)
    }

    /// True if `check` passes at a crash since `begun`: the answer of a read may have been on its way when
    /// the power failed. It tells nothing then of what came later.
    fn was_answered(&self, begun: Moment, check: impl Fn(&mut Self) -> Result<(), Wrong>) -> bool {
        let mut outlived = self.outlived.iter().filter(|was| begun < was.until);
        outlived.any(|was| check(&mut was.clone()).is_ok())
    }

    fn returned_alive(&mut self, id: WriteId, begun: Moment, ended: Moment) -> Result<(), Wrong> {
        self.fix(|cluster| cluster.id == id && !cluster.is_zero);
        let found = self.clusters.iter().position(|cluster| cluster.id == id);
        let index = found.ok_or(Wrong::Stale)?;
        if self.tells_nothing(index, begun) {
            return Ok(());
        }
        let grown = self.grown(index, begun, ended);
        if !self.is_legal(index, &grown) {
            return Err(Wrong::Stale);
        }
        self.clusters[index] = grown;
        Ok(())
    }

    /// A read from `begun` to `ended` returned zeroes. Several writes of zeroes cannot be told
    /// apart; only if one alone is legal is the read counted to it.
    ///
    /// # Errors
    /// If no legal order allows that.
    pub fn returned_zero(&mut self, begun: Moment, ended: Moment) -> Result<(), Wrong> {
        if self.was_answered(begun, |was| was.returned_zero_alive(begun, was.until)) {
            return Ok(());
        }
        self.returned_zero_alive(begun, ended)
    }

    fn returned_zero_alive(&mut self, begun: Moment, ended: Moment) -> Result<(), Wrong> {
        self.fix(|cluster| cluster.is_zero);
        let mut zeroes = (0..self.clusters.len()).filter(|&index| self.clusters[index].is_zero);
        if zeroes.any(|index| self.tells_nothing(index, begun)) {
            return Ok(());
        }
        let legal: Vec<(usize, Cluster)> = self
            .clusters
            .iter()
            .enumerate()
            .filter(|(_, cluster)| cluster.is_zero)
            .map(|(index, _)| (index, self.grown(index, begun, ended)))
            .filter(|(index, grown)| self.is_legal(*index, grown))
            .collect();
        match legal.as_slice() {
            [] => Err(Wrong::Lost),
            [(index, grown)] => {
                self.clusters[*index] = grown.clone();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// True if a read that began at `begun` may have seen any of several effects of a write, whose last
    /// may be yet to come.
    fn tells_nothing(&self, index: usize, begun: Moment) -> bool {
        let cluster = &self.clusters[index];
        cluster.is_repeated() && begun < cluster.ended
    }

    fn grown(&self, index: usize, begun: Moment, ended: Moment) -> Cluster {
        let mut grown = self.clusters[index].clone();
        // It did take effect, so what is known of its end holds.
        grown.first_end = grown.settled().min(ended);
        if begun > grown.last_begin {
            // It was there then, and not only before a crash.
            grown.last_begin = begun;
            grown.beside.clear();
        }
        grown
    }

    fn is_legal(&self, index: usize, grown: &Cluster) -> bool {
        let mut others = self.clusters.iter().enumerate();
        grown.first_end >= self.floor
            && grown.invoked <= grown.first_end
            && others.all(|(other, cluster)| {
                other == index || !(cluster.is_before(grown) && grown.is_before(cluster))
            })
    }

    /// The power failed. `flushed` is the moment through which acknowledged writes are durable. Writes
    /// that their hosts send again count as invoked at `again`, after the crash. `oldest` is the earliest
    /// invocation among operations that outlive it.
    pub fn crash(&mut self, moment: Moment, flushed: Moment, again: Moment, oldest: Moment) {
        self.remember(moment, oldest);
        self.mark(flushed);
        let afloat: Vec<Cluster> = self
            .clusters
            .extract_if(.., |one| one.is_afloat())
            .collect();
        self.keep_survivors();
        let open = &self.open;
        let afloat = afloat.into_iter().map(|one| one.sent_again(again, open));
        let afloat: Vec<Cluster> = afloat.collect();
        self.crashed = moment;
        self.clusters.clone_from(&self.open);
        self.floor = 0;
        for cluster in &mut self.clusters {
            // Which of them it is was decided at the crash; it is so before anything that follows.
            cluster.first_end = moment;
            cluster.refused = NEVER;
            cluster.last_begin = cluster.invoked;
            cluster.is_durable = true;
        }
        self.clusters.extend(afloat);
    }

    /// Keeps what the block is known to be for operations that outlive a crash. A value that is the only
    /// one is the only one after it too.
    fn remember(&mut self, moment: Moment, oldest: Moment) {
        self.outlived.retain(|was| oldest < was.until);
        if oldest < moment && self.clusters.len() > 1 {
            let was = Self {
                clusters: self.clusters.clone(),
                floor: self.floor,
                open: Vec::new(),
                crashed: self.crashed,
                outlived: Vec::new(),
                until: moment,
            };
            self.outlived.push(was);
        }
    }

    /// Clusters that do not stand before a durable one are what the block may hold.
    fn keep_survivors(&mut self) {
        let clusters = &self.clusters;
        let is_superseded = |old: &Cluster| {
            let mut durable = clusters.iter().filter(|new| new.is_durable);
            durable.any(|new| new.id != old.id && new.is_behind(old.id, old.settled()))
        };
        let alive = clusters.iter().filter(|cluster| !is_superseded(cluster));
        self.open.clear();
        self.open.extend(alive.cloned());
    }

    /// A read after the crash saw one of the values that match: the others never come back.
    fn fix(&mut self, is_match: impl Fn(&Cluster) -> bool) {
        let crashed = self.crashed;
        let is_old = |cluster: &Cluster| cluster.invoked < crashed;
        let mut matches = self
            .clusters
            .iter()
            .filter(|cluster| is_match(cluster))
            .peekable();
        let tells = matches.peek().is_some() && matches.all(is_old);
        if crashed != 0 && tells && !self.is_fixed() {
            self.clusters
                .retain(|cluster| is_match(cluster) || !is_old(cluster));
            self.settle();
        }
    }

    /// True if what the block held at the last crash is known (or is zeroes of several origins).
    fn is_fixed(&self) -> bool {
        let mut old = self
            .clusters
            .iter()
            .filter(|cluster| cluster.invoked < self.crashed);
        let Some(first) = old.next() else {
            return true;
        };
        old.all(|cluster| cluster.is_zero && first.is_zero)
    }

    /// Zeroes of several origins that survived a crash are one value from now on.
    fn settle(&mut self) {
        let crashed = self.crashed;
        let mut seen = false;
        if crashed != 0 && self.is_fixed() {
            self.clusters.retain(|cluster| {
                let again = cluster.invoked < crashed && seen;
                seen |= cluster.invoked < crashed;
                !again
            });
        }
    }

    fn mark(&mut self, flushed: Moment) {
        for cluster in &mut self.clusters {
            cluster.is_durable |= cluster.acknowledged < flushed;
        }
    }

    /// Removes clusters that no later read may return and no crash may bring back.
    fn prune(&mut self, oldest: Moment, flushed: Moment) {
        if self.clusters.len() < 2 {
            return;
        }
        self.mark(flushed);
        // Few, however many values there are while hosts are refused and an old operation has not ended.
        let durable = self.clusters.iter();
        let durable = durable.filter(|new| new.is_durable && new.first_end < oldest);
        let durable: Vec<&Cluster> = durable.collect();
        let is_dead = |cluster: &&Cluster| {
            // One that was refused took effect before that, if it did.
            let is_behind = |new: &Cluster| new.is_behind(cluster.id, cluster.settled());
            let mut durable = durable.iter();
            durable.any(|new| is_behind(new) && cluster.last_begin < new.last_begin)
                && !self.is_beside_any(cluster)
        };
        let dead = self.clusters.iter().filter(is_dead);
        // What never happened, as far as anybody has seen, stood before nothing.
        let floor = |one: &Cluster| {
            if one.first_end == NEVER {
                0
            } else {
                one.last_begin
            }
        };
        let dead: Vec<(WriteId, Moment)> = dead.map(|one| (one.id, floor(one))).collect();
        for (id, last_begin) in dead {
            self.floor = self.floor.max(last_begin);
            self.clusters.retain(|one| one.id != id);
        }
    }

    /// True if a value is there that may have come after this one, although it ended before this one began: `floor` could
    /// not tell the two from values that may not.
    fn is_beside_any(&self, cluster: &Cluster) -> bool {
        let mut values = self.clusters.iter();
        !cluster.beside.is_empty() && values.any(|one| cluster.beside.contains(&one.id))
    }

    /// What the block may have held at the last crash, until [`Register::close`].
    #[must_use]
    pub fn open(&self) -> &[Cluster] {
        &self.open
    }

    /// Those of [`Register::open`] that reads after the crash leave possible.
    #[must_use]
    pub fn survivors_seen(&self) -> Vec<&Cluster> {
        let is_possible = |was: &&Cluster| {
            let mut old = self.clusters.iter();
            old.any(|now| {
                let is_same = now.id == was.id || now.is_zero && was.is_zero;
                now.invoked < self.crashed && is_same
            })
        };
        self.open.iter().filter(is_possible).collect()
    }

    /// What the block may hold now, as far as reads tell.
    #[must_use]
    pub fn held(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The verify pass after a crash is over.
    pub fn close(&mut self) {
        self.open.clear();
    }

    /// Least and most data blocks (0 or 1) the block may hold now, with nothing outstanding.
    #[must_use]
    pub fn mapped(&self) -> (u64, u64) {
        let [last, before] = self.latest();
        let current = self.clusters.iter().filter(|cluster| {
            let other = last.filter(|last| last.id != cluster.id).or(before);
            // Who stands before any stands before the latest, unless they are beside one another.
            !other.is_some_and(|other| match other.beside.contains(&cluster.id) {
                true => self.is_superseded(cluster),
                false => cluster.is_before(other),
            })
        });
        let mut bounds = (1, 0);
        for cluster in current {
            let mapped = u64::from(!cluster.is_zero);
            bounds = (bounds.0.min(mapped), bounds.1.max(mapped));
        }
        bounds
    }

    /// The two values that began last, of those that certainly happened: what may not have (refused, in flight)
    /// supersedes nothing.
    fn latest(&self) -> [Option<&Cluster>; 2] {
        let mut latest: [Option<&Cluster>; 2] = [None; 2];
        for cluster in self.clusters.iter().filter(|one| one.first_end != NEVER) {
            let is_later = |than: &Option<&Cluster>| {
                than.is_none_or(|than| cluster.last_begin > than.last_begin)
            };
            match latest.iter().position(is_later) {
                Some(0) => latest = [Some(cluster), latest[0]],
                Some(_) => latest[1] = Some(cluster),
                None => {}
            }
        }
        latest
    }

    fn is_superseded(&self, cluster: &Cluster) -> bool {
        let mut happened = self.clusters.iter().filter(|one| one.first_end != NEVER);
        happened.any(|one| one.id != cluster.id && cluster.is_before(one))
    }
}

#[cfg(test)]
mod tests;
