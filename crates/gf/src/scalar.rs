//! The reference kernel: plain byte loops.

/// `acc ^= source`, byte by byte; the slices are equally long.
pub fn xor_into(acc: &mut [u8], source: &[u8]) {
    for (into, from) in acc.iter_mut().zip(source) {
        *into ^= from;
    }
}

/// `out = XOR of sources`; every source is as long as `out`, no sources give zeroes.
pub fn xor_many(out: &mut [u8], sources: &[&[u8]]) {
    let Some((first, rest)) = sources.split_first() else {
        out.fill(0);
        return;
    };
    out.copy_from_slice(first);
    for source in rest {
        xor_into(out, source);
    }
}
