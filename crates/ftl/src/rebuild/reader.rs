//! P2L areas of many stripes, several read beside one another, in order.

use super::RebuildError;
use crate::areas::read_area;
use crate::config::{Canary, Config};
use crate::geometry::Geometry;
use crate::limits::{OUTAGE_PAUSE_MAX, RETRY_PAUSE};
use crate::shared::Identity;
use crate::ways::Ways;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use varve_format::{P2l, block_crc};
use varve_io::{Blocks, Drive, Receiver, World};
use varve_units::{BLOCK_BYTES, Generation, Nanos, Ppa};

/// Reads beside one another. Arbitrary: enough for the dies of a drive.
const READS: usize = 32;
/// Times that a read of what does not answer is tried. Arbitrary: two seconds in all.
const TRIES: u32 = 12;

/// Which of the copies of an area is wanted.
#[derive(Clone, Copy)]
pub(super) enum Want {
    /// The newest of all.
    Newest,
    /// The first one of this generation.
    Of(Generation),
}

/// What all copies of the areas of a stripe came to.
pub(super) struct Reading {
    pub(super) group: u32,
    pub(super) stripe: u32,
    /// The one that counts.
    pub(super) p2l: Option<P2l>,
    /// Copies are of several generations or epochs.
    pub(super) is_mixed: bool,
    /// The media could not read a copy.
    pub(super) is_damaged: bool,
}

/// Reads the dense tier.
pub(super) struct Reader {
    pub(super) world: Rc<dyn World>,
    dense: Rc<dyn Drive>,
    pub(super) geometry: Geometry,
    identity: Identity,
    is_elided: bool,
    /// The lowest birth wins.
    pub(super) is_upside_down: bool,
}

impl Reader {
    pub(super) fn new(
        world: Rc<dyn World>,
        dense: Rc<dyn Drive>,
        geometry: Geometry,
        config: &Config,
        identity: Identity,
    ) -> Self {
        Self {
            world,
            dense,
            geometry,
            identity,
            is_elided: config.elided,
            is_upside_down: config.is_planted(Canary::LowestBirthWins),
        }
    }

    /// Reads the areas of stripes, in order.
    pub(super) fn read_ahead(
        self: &Rc<Self>,
        stripes: impl Iterator<Item = (u32, u32, Want)>,
    ) -> Readings<impl Iterator<Item = (u32, u32, Want)>> {
        Readings {
            reader: Rc::clone(self),
            stripes,
            ahead: VecDeque::new(),
        }
    }

    async fn read(&self, group: u32, stripe: u32, want: Want) -> Result<Reading, RebuildError> {
        let mut pause = RETRY_PAUSE;
        for last in 1..=TRIES {
            let (reading, ways) = self.try_read(group, stripe, want).await;
            let away = ways.away().filter(|_| reading.p2l.is_none());
            match away {
                Some(error) if last == TRIES => return Err(RebuildError::Dense(error)),
                Some(_) => self.pause(&mut pause).await,
                None => return Ok(reading),
            }
        }
        unreachable!("the last try returns")
    }

    async fn pause(&self, pause: &mut Nanos) {
        self.world.sleep(*pause).await;
        *pause = Nanos((pause.0 * 2).min(OUTAGE_PAUSE_MAX.0));
    }

    async fn try_read(&self, group: u32, stripe: u32, want: Want) -> (Reading, Ways) {
        let mut reading = Reading {
            group,
            stripe,
            p2l: None,
            is_mixed: false,
            is_damaged: false,
        };
        let mut ways = Ways::default();
        let places = self.geometry.p2l_places(group, stripe);
        let leading = self.geometry.leading_place(group, stripe);
        let leading = (self.geometry.p2l_copies == 1).then_some(leading);
        for place in places.chain(leading) {
            let is_leading = Some(place) == leading;
            if is_leading && reading.p2l.is_some() {
                // A stripe has either.
                continue;
            }
            for copy in 0..self.dense.info().copies {
                let at = (place, copy);
                let of = (group, stripe);
                let read = read_area(&*self.dense, &self.geometry, &self.identity, at, of).await;
                let p2l = match read {
                    Ok(Some(p2l)) => p2l,
                    Ok(None) => {
                        ways.note_mismatch();
                        continue;
                    }
                    Err(error) => {
                        reading.is_damaged |= !is_leading && error == varve_io::IoError::Media;
                        ways.note_error(error);
                        continue;
                    }
                };
                match want {
                    Want::Of(generation) if p2l.generation == generation => {
                        reading.p2l = Some(p2l);
                        return (reading, ways);
                    }
                    Want::Of(_) => ways.note_mismatch(),
                    Want::Newest => reading.note(p2l),
                }
            }
        }
        (reading, ways)
    }

    /// Reads blocks that lie behind one another; tells of each whether some way gives the one of this checksum.
    ///
    /// # Errors
    /// A way that may does not answer.
    pub(super) async fn verify_run(
        &self,
        first: Ppa,
        crcs: Vec<u32>,
    ) -> Result<Vec<bool>, RebuildError> {
        let into = Blocks::new(crcs.len(), self.is_elided);
        let read = self.dense.read_data(first.bits() * BLOCK_BYTES, into, 0);
        let read = read.await.ok();
        let mut sound = Vec::with_capacity(crcs.len());
        for (index, crc) in crcs.into_iter().enumerate() {
            let passes = |blocks: &Blocks| block_crc(blocks.block(index)) == crc;
            let is_sound = match read.as_ref().is_some_and(passes) {
                true => true,
                false => {
                    let ppa = Ppa::dense(first.bits() + index as u64);
                    self.verify(ppa, crc).await?
                }
            };
            sound.push(is_sound);
        }
        Ok(sound)
    }

    /// True if some way gives the block of this checksum at a place; false if none can.
    async fn verify(&self, ppa: Ppa, crc: u32) -> Result<bool, RebuildError> {
        let mut pause = RETRY_PAUSE;
        for last in 1..=TRIES {
            let mut ways = Ways::default();
            for copy in 0..self.dense.info().copies {
                let into = Blocks::new(1, self.is_elided);
                let read = self.dense.read_data(ppa.bits() * BLOCK_BYTES, into, copy);
                match read.await {
                    Ok(blocks) if block_crc(blocks.block(0)) == crc => return Ok(true),
                    Ok(_) => ways.note_mismatch(),
                    Err(error) => ways.note_error(error),
                }
            }
            match ways.away() {
                Some(error) if last == TRIES => return Err(RebuildError::Dense(error)),
                Some(_) => self.pause(&mut pause).await,
                None => return Ok(false),
            }
        }
        unreachable!("the last try returns")
    }
}

impl Reading {
    /// Of copies that were written at different times the youngest counts.
    fn note(&mut self, p2l: P2l) {
        let order = |p2l: &P2l| (p2l.generation, p2l.epoch);
        if let Some(known) = &self.p2l {
            self.is_mixed |= order(known) != order(&p2l);
            if order(known) >= order(&p2l) {
                return;
            }
        }
        self.p2l = Some(p2l);
    }
}

/// Stripes being read.
pub(super) struct Readings<Stripes> {
    reader: Rc<Reader>,
    stripes: Stripes,
    ahead: VecDeque<Receiver<Result<Reading, RebuildError>>>,
}

impl<Stripes: Iterator<Item = (u32, u32, Want)>> Readings<Stripes> {
    /// The next one.
    pub(super) async fn next(&mut self) -> Result<Option<Reading>, RebuildError> {
        while self.ahead.len() < READS
            && let Some((group, stripe, want)) = self.stripes.next()
        {
            let reader = Rc::clone(&self.reader);
            let read = async move { Box::pin(reader.read(group, stripe, want)).await };
            self.ahead.push_back(self.reader.world.run(read));
        }
        match self.ahead.pop_front() {
            Some(reading) => reading.await.map(Some),
            None => Ok(None),
        }
    }
}
