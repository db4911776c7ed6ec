//! Lists of pieces of memory that the kernel moves one behind the other, in several calls if it must.

/// Pieces of one call: `UIO_MAXIOV` of `linux/uio.h`.
const PIECES_MAX: usize = 1024;

/// The pieces of a transfer that are still to be moved, in order.
pub(crate) struct Vectors {
    pieces: Vec<libc::iovec>,
    /// The first that is not whole yet; it begins where the next byte goes.
    next: usize,
}

/// A piece of memory, for a list.
pub(crate) fn piece(start: *const u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast_mut().cast(),
        iov_len: length,
    }
}

impl Vectors {
    /// All of these.
    pub(crate) fn new(pieces: Vec<libc::iovec>) -> Self {
        Self { pieces, next: 0 }
    }

    /// The pieces still to be moved, as many as one call takes.
    pub(crate) fn pieces(&self) -> &[libc::iovec] {
        let end = self.pieces.len().min(self.next + PIECES_MAX);
        &self.pieces[self.next..end]
    }

    /// `count` bytes have been moved.
    pub(crate) fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let piece = &mut self.pieces[self.next];
            if count < piece.iov_len {
                piece.iov_base = piece.iov_base.wrapping_byte_add(count);
                piece.iov_len -= count;
                return;
            }
            count -= piece.iov_len;
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(vectors: &Vectors) -> Vec<usize> {
        vectors.pieces().iter().map(|piece| piece.iov_len).collect()
    }

    #[test]
    fn progress_crosses_pieces() {
        let start = std::ptr::without_provenance(4096);
        let mut vectors = Vectors::new(vec![piece(start, 100), piece(start, 50), piece(start, 7)]);
        vectors.advance(30);
        assert_eq!(lengths(&vectors), [70, 50, 7]);
        vectors.advance(75);
        assert_eq!(lengths(&vectors), [45, 7]);
        assert_eq!(vectors.pieces()[0].iov_base as usize, 4096 + 5);
        vectors.advance(52);
        assert!(vectors.pieces().is_empty());
    }
}
