//! Streams of consecutive requests, as OCF notices them.
//!
//! # Source
//! `Open-CAS/ocf` b8b4b70, `src/ocf_seq_detect.c`, `src/ocf_seq_cutoff.c`.

use super::super::super::system::Io;
use crate::comparators::OPEN_CAS;

#[derive(Clone, Copy)]
struct Stream {
    is_read: bool,
    /// Where the next request would begin.
    end: u64,
    bytes: u64,
    requests: u32,
    used: u64,
}

/// Streams of one queue and of one core device: requests of all jobs come through one queue.
#[derive(Default)]
pub(super) struct Streams {
    queue: Vec<Stream>,
    core: Vec<Stream>,
    clock: u64,
}

impl Streams {
    /// Bytes of the stream that a request would go on with, itself included; none if it goes on
    /// with no stream.
    pub(super) fn bytes_with(&self, io: Io) -> Option<u64> {
        let of = |streams: &[Stream]| {
            let goes_on = streams.iter().filter(|stream| stream.is_met_by(io));
            goes_on.map(|stream| stream.bytes + io.bytes).max()
        };
        of(&self.queue).or_else(|| of(&self.core))
    }

    /// Notes a request.
    pub(super) fn note(&mut self, io: Io) {
        self.clock += 1;
        let clock = self.clock;
        if go_on(&mut self.core, io, clock).is_some() {
            return;
        }
        let at = go_on(&mut self.queue, io, clock).unwrap_or_else(|| {
            let begun = Stream {
                is_read: io.is_read,
                end: io.offset + io.bytes,
                bytes: io.bytes,
                requests: 1,
                used: clock,
            };
            put(&mut self.queue, OPEN_CAS.streams_of_queue, begun)
        });
        if self.queue[at].requests >= OPEN_CAS.promoted_after {
            let stream = self.queue.swap_remove(at);
            put(&mut self.core, OPEN_CAS.streams_of_core, stream);
        }
    }
}

impl Stream {
    const fn is_met_by(&self, io: Io) -> bool {
        self.end == io.offset && self.is_read == io.is_read
    }
}

fn go_on(streams: &mut [Stream], io: Io, clock: u64) -> Option<usize> {
    let of = |(at, stream): (usize, &Stream)| stream.is_met_by(io).then_some((stream.bytes, at));
    let (_, at) = streams.iter().enumerate().filter_map(of).max()?;
    let stream = &mut streams[at];
    stream.end += io.bytes;
    stream.bytes += io.bytes;
    stream.requests += 1;
    stream.used = clock;
    Some(at)
}

/// In place of the one that was used longest ago, if there is no room.
fn put(streams: &mut Vec<Stream>, room: usize, stream: Stream) -> usize {
    if streams.len() < room {
        streams.push(stream);
        return streams.len() - 1;
    }
    let oldest = streams.iter().enumerate().min_by_key(|(_, one)| one.used);
    let (at, _) = oldest.expect("there is room for streams");
    streams[at] = stream;
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn write(offset: u64, bytes: u64) -> Io {
        Io {
            is_read: false,
            offset,
            bytes,
        }
    }

    /// A stream is followed through any number of requests elsewhere once it has been promoted.
    #[test]
    fn a_stream_outlives_random_requests_once_promoted() {
        let mut streams = Streams::default();
        for number in 0..u64::from(OPEN_CAS.promoted_after) {
            streams.note(write(number * 4096, 4096));
        }
        for number in 0..1000 {
            streams.note(write((1 << 30) + number * 8192, 4096));
        }
        assert_eq!(streams.bytes_with(write(8 * 4096, 4096)), Some(9 * 4096));
        assert_eq!(streams.bytes_with(write(9 * 4096, 4096)), None);
        let read = Io {
            is_read: true,
            ..write(8 * 4096, 4096)
        };
        assert_eq!(streams.bytes_with(read), None, "reads are other streams");
    }

    #[test]
    fn a_short_stream_is_forgotten() {
        let mut streams = Streams::default();
        streams.note(write(0, 4096));
        for number in 0..OPEN_CAS.streams_of_queue as u64 {
            streams.note(write((1 << 30) + number * 8192, 4096));
        }
        assert_eq!(streams.bytes_with(write(4096, 4096)), None);
    }
}
