//! Parity against the data that it was made of: what no read shows as long as the data can be read.
//!
//! Who calls has read a stripe and knows which of its blocks are right; here parity is read, compared with
//! what they add up to, and written again where it differs. A *row* is one block of each drive at the
//! same height; one of which a block is not known to be right is left alone.
//!
//! **Not here**: which blocks are right (`ftl`), the second copies of mirrors (ways to read as any other).

use crate::stripe::StripeSet;
use alloc::vec::Vec;
use core::ops::Range;
use varve_gf::xor_many;
use varve_io::{Blocks, Command, Done, Gather, Handle, IoError, Target};
use varve_units::{BLOCK, BLOCK_BYTES};

impl StripeSet {
    /// Rows of a stripe whose parity is not what their data add up to, or cannot be read: heights in blocks, in order.
    /// None where there is no parity.
    ///
    /// # Shape
    /// `data` are all data blocks of the stripe in order, `is_known` says of each whether it is right.
    ///
    /// # Errors
    /// The drive that holds the parity does not answer, or has left.
    ///
    /// # Panics
    /// If the shapes do not fit, or blocks are symbols.
    pub async fn wrong_parity(
        &self,
        stripe: u64,
        data: &Blocks,
        is_known: &[bool],
    ) -> Result<Vec<u64>, IoError> {
        let Some(member) = self.geometry.parity(stripe) else {
            return Ok(Vec::new());
        };
        let strip_blocks = self.strip_blocks();
        let data_blocks = strip_blocks * self.geometry.data_strips();
        assert_eq!(data.len(), data_blocks, "all data blocks of a stripe");
        assert_eq!(is_known.len(), data_blocks, "a word for each block");
        let sums = self.sums(data, 0..strip_blocks);
        let is_whole = |row: usize| is_known.iter().skip(row).step_by(strip_blocks).all(|k| *k);
        let rows = (0..strip_blocks).filter(|&row| is_whole(row));
        let mut wrong = Vec::new();
        match self.read_parity(member, stripe, 0..strip_blocks).await {
            Ok(parity) => {
                let differs = |row: &usize| parity.get(*row).0 != sums.get(*row).0;
                wrong.extend(rows.filter(differs).map(|row| row as u64));
            }
            Err(IoError::Media) => {
                for row in rows {
                    match self.read_parity(member, stripe, row..row + 1).await {
                        Ok(parity) if parity.get(0).0 == sums.get(row).0 => {}
                        Ok(_) | Err(IoError::Media) => wrong.push(row as u64),
                        Err(why) => return Err(why),
                    }
                }
            }
            Err(why) => return Err(why),
        }
        Ok(wrong)
    }

    /// Writes the parity of the given rows of a stripe again. `data` as of [`StripeSet::wrong_parity`].
    ///
    /// # Errors
    /// The drive's; it is given up then, if the others hold everything.
    ///
    /// # Panics
    /// If the stripe has no parity, or a row lies beyond it.
    pub async fn mend_parity(
        &self,
        stripe: u64,
        data: &Blocks,
        rows: &[u64],
    ) -> Result<(), IoError> {
        let member = self.geometry.parity(stripe);
        let member = member.expect("a stripe with parity");
        let mut rest = rows;
        while let Some(&first) = rest.first() {
            let follows = |(row, at): &(&u64, u64)| **row == *at;
            let count = rest.iter().zip(first..).take_while(follows).count();
            rest = &rest[count..];
            let first = first as usize;
            let rows = first..first + count;
            let range = self.heights(stripe, rows.clone());
            let mut gather = Gather::new();
            gather.push_data(self.sums(data, rows));
            let start = range.start;
            let mended = self.members.repair(range, member, move |members| {
                members.send(member, |base| Command::Write {
                    offset: base + start,
                    gather,
                    handle: Handle::default(),
                })
            });
            mended.await?;
        }
        Ok(())
    }

    fn strip_blocks(&self) -> usize {
        (self.geometry.strip_bytes() / BLOCK_BYTES) as usize
    }

    /// Bytes of every member where rows of a stripe lie.
    fn heights(&self, stripe: u64, rows: Range<usize>) -> Range<u64> {
        let first = stripe * self.geometry.strip_bytes();
        first + rows.start as u64 * BLOCK_BYTES..first + rows.end as u64 * BLOCK_BYTES
    }

    /// What the data of some rows add up to.
    fn sums(&self, data: &Blocks, rows: Range<usize>) -> Blocks {
        let (strip, bytes) = (self.strip_blocks() * BLOCK, data.bytes());
        let range = rows.start * BLOCK..rows.end * BLOCK;
        let strips: Vec<&[u8]> = bytes
            .chunks_exact(strip)
            .map(|strip| &strip[range.clone()])
            .collect();
        let mut sums = self.members.world.blocks(rows.len(), false);
        xor_many(sums.bytes_mut(), &strips);
        sums
    }

    async fn read_parity(
        &self,
        member: usize,
        stripe: u64,
        rows: Range<usize>,
    ) -> Result<Blocks, IoError> {
        if !self.members.is_live(member) {
            return Err(self.members.absence(member));
        }
        let into = Target::Data(self.members.world.blocks(rows.len(), false));
        let start = self.heights(stripe, rows).start;
        let part = self.members.send(member, |base| Command::Read {
            offset: base + start,
            into,
            copy: 0,
        });
        let part = self.members.one(part).await;
        self.members.note_read(&part);
        match part.into_outcome()? {
            Done::Read(Target::Data(parity)) => Ok(parity),
            _ => unreachable!("a read returns its memory"),
        }
    }
}
