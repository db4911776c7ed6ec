//! Parity of one stripe over the segments of its strips.

use alloc::vec::Vec;
use varve_gf::xor_many;
use varve_io::Segment;
use varve_units::BLOCK;

/// `out` = XOR of the strips, in one pass; the strips' segments need not have the same bounds.
///
/// # Shape
/// Every strip's segments together are as long as `out`.
///
/// # Panics
/// If a strip has another length, or holds payload-elided blocks: a symbol and the bytes of a
/// P2L block in one column have no common parity.
pub(crate) fn compute(out: &mut [u8], strips: &[Vec<Segment>]) {
    let mut rests: Vec<_> = strips.iter().map(|strip| strip.iter()).collect();
    let mut heads: Vec<&[u8]> = strips.iter().map(|_| &[][..]).collect();
    let mut sources = heads.clone();
    let mut at = 0;
    while at < out.len() {
        let mut run = out.len() - at;
        for (head, rest) in heads.iter_mut().zip(&mut rests) {
            while head.is_empty() {
                *head = bytes(rest.next().expect("a strip as long as its parity"));
            }
            run = run.min(head.len());
        }
        for (source, head) in sources.iter_mut().zip(&mut heads) {
            (*source, *head) = head.split_at(run);
        }
        xor_many(&mut out[at..at + run], &sources);
        at += run;
    }
    let is_used_up = heads.iter().all(|head| head.is_empty())
        && rests.iter_mut().all(|rest| rest.next().is_none());
    assert!(is_used_up, "a strip longer than its parity");
}

fn bytes(segment: &Segment) -> &[u8] {
    match segment {
        Segment::Meta(sectors) => sectors.bytes(),
        Segment::Data(blocks, range) => {
            assert!(!blocks.is_elided(), "parity of payload-elided blocks");
            &blocks.bytes()[range.start * BLOCK..range.end * BLOCK]
        }
    }
}
