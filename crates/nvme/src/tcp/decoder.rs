//! PDUs out of a byte stream.
//!
//! 1. Eight bytes: type, direction, header length, flags and the PDU's length against the limits.
//! 2. The header: its digest, then where the data lies.
//! 3. The data, into a buffer of exactly its length; a caller may receive straight into it. One that has
//!    to judge the header before there is memory for its data asks for [`Decoder::announcing`].
//! 4. The data's digest. A mismatch ends nothing: it is told with the PDU.
//!
//! **Invariants**: at most one payload is buffered, and its length was checked before it was
//! allocated; after an error nothing more is taken.
//!
//! **Not here**: which PDU may come when.

use super::digest::{DIGEST_BYTES, Digests, data_digest};
use super::fatal::{FatalError, FatalStatus, TERM_DATA_MAX};
use super::header::{Header, RawCommon};
use super::kind::{Kind, Side};
use super::{COMMON_BYTES, HEADER_BYTES_MAX, flag};
use alloc::vec::Vec;
use zerocopy::FromBytes;

/// Offset of a field of the common header, for FEI.
mod offset {
    pub const KIND: u32 = 0;
    pub const FLAGS: u32 = 1;
    pub const HLEN: u32 = 2;
    pub const PDO: u32 = 3;
    pub const PLEN: u32 = 4;
}

/// What a decoder accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of data in a command capsule.
    pub capsule_data_max: u32,
    /// Bytes of data in an H2CData or C2HData.
    pub data_max: u32,
    /// Alignment of data that was asked for: `(pda + 1) * 4`.
    pub pda: u8,
}

/// What became of a data digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataDigest {
    /// There is none.
    Absent,
    /// It matches.
    Good,
    /// It does not: the data is not to be used.
    Bad,
}

/// A PDU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pdu {
    /// Its header.
    pub header: Header,
    /// Its flags.
    pub flags: u8,
    /// Its data.
    pub data: Vec<u8>,
    /// What became of the data's digest.
    pub digest: DataDigest,
    /// The header as it came, for a TermReq.
    pub raw: [u8; HEADER_BYTES_MAX],
}

impl Pdu {
    /// An error that blames this PDU.
    #[must_use]
    pub fn fatal(&self, status: FatalStatus, detail: u32) -> FatalError {
        let len = self.header.kind().header_bytes();
        FatalError::new(status, detail, &self.raw[..len])
    }
}

/// The header of a PDU whose data comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The header.
    pub header: Header,
    /// Its flags.
    pub flags: u8,
    /// Bytes of data that follow.
    pub data_bytes: usize,
    /// The header as it came.
    raw: [u8; HEADER_BYTES_MAX],
}

impl Head {
    /// An error that blames this PDU.
    #[must_use]
    pub fn fatal(&self, status: FatalStatus, detail: u32) -> FatalError {
        let len = self.header.kind().header_bytes();
        FatalError::new(status, detail, &self.raw[..len])
    }
}

/// What bytes led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes taken from the front.
    pub taken: usize,
    /// A PDU with data whose header ended there; only of a decoder that announces them.
    pub begun: Option<Head>,
    /// A whole PDU, if one ended there.
    pub pdu: Option<Pdu>,
}

/// Reads the PDUs of one direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    sender: Side,
    limits: Limits,
    digests: Digests,
    state: State,
    /// Header, its digest and padding.
    head: Vec<u8>,
    payload: Vec<u8>,
    /// The payload is with the caller.
    is_lent: bool,
    /// Data digest as received.
    tail: Vec<u8>,
    /// Memory of data that was given back.
    spare: Vec<u8>,
    is_announcing: bool,
    /// To be told before its data is taken.
    begun: Option<Head>,
}

#[derive(Debug)]
enum State {
    /// The first eight bytes.
    Common,
    /// Up to the data.
    Head { common: Checked, until: usize },
    /// Data.
    Payload { common: Checked },
    /// Data digest.
    Tail { common: Checked },
    /// An error was returned.
    Failed,
}

/// A common header that was checked.
#[derive(Clone, Copy, Debug)]
struct Checked {
    kind: Kind,
    flags: u8,
    has_header_digest: bool,
    has_data_digest: bool,
    payload_len: usize,
}

impl Decoder {
    /// A decoder of what `sender` sends; digests are off until [`Decoder::set_digests`].
    #[must_use]
    pub fn new(sender: Side, limits: Limits) -> Self {
        Self {
            sender,
            limits,
            digests: Digests::default(),
            state: State::Common,
            head: Vec::with_capacity(HEADER_BYTES_MAX),
            payload: Vec::new(),
            is_lent: false,
            tail: Vec::with_capacity(DIGEST_BYTES),
            spare: Vec::new(),
            is_announcing: false,
            begun: None,
        }
    }

    /// Tells of every PDU with data before there is memory for its data.
    #[must_use]
    pub fn announcing(mut self) -> Self {
        self.is_announcing = true;
        self
    }

    /// Digests of all PDUs to come.
    ///
    /// # Panics
    /// In the middle of a PDU.
    pub fn set_digests(&mut self, digests: Digests) {
        assert!(self.is_between(), "digests change between PDUs");
        self.digests = digests;
    }

    /// Limits of all PDUs to come.
    ///
    /// # Panics
    /// In the middle of a PDU.
    pub fn set_limits(&mut self, limits: Limits) {
        assert!(self.is_between(), "limits change between PDUs");
        self.limits = limits;
    }

    /// True if no PDU has begun.
    #[must_use]
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Common) && self.head.is_empty()
    }

    /// Takes bytes up to the end of a PDU at most; call again with the rest.
    ///
    /// # Errors
    /// The connection has to end. All later calls fail too.
    ///
    /// # Panics
    /// While data is lent.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress, FatalError> {
        assert!(!self.is_lent, "the data is elsewhere");
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let (count, pdu) = match self.step(rest) {
                Ok(step) => step,
                Err(error) => {
                    self.state = State::Failed;
                    return Err(error);
                }
            };
            taken += count;
            let begun = self.begun.take();
            let has_news = pdu.is_some() || begun.is_some();
            if has_news || taken == bytes.len() && !self.is_ready() {
                return Ok(Progress { taken, begun, pdu });
            }
        }
    }

    /// Bytes of data of the PDU being received that are not here yet; 0 outside of data.
    #[must_use]
    pub fn missing(&self) -> usize {
        match self.state {
            State::Payload { common } => common.payload_len - self.payload.len(),
            _ => 0,
        }
    }

    /// The data of the PDU being received as far as it is here, with room for the rest behind it, for a
    /// caller that receives it there. [`Decoder::give_back`] comes next.
    ///
    /// # Panics
    /// Outside of data, or if it was lent before.
    #[must_use]
    pub fn lend(&mut self) -> Vec<u8> {
        assert!(self.missing() > 0 && !self.is_lent, "data is expected here");
        if let State::Payload { common } = self.state {
            self.make_room(common);
        }
        self.is_lent = true;
        core::mem::take(&mut self.payload)
    }

    /// What was lent, with more bytes behind those it had. Gives those beyond the data, which are to be
    /// fed: a vector may have more room than was asked for.
    ///
    /// # Panics
    /// If nothing was lent.
    #[must_use]
    pub fn give_back(&mut self, mut payload: Vec<u8>) -> Vec<u8> {
        assert!(self.is_lent, "nothing was lent");
        self.is_lent = false;
        let surplus = match self.state {
            State::Payload { common } if payload.len() > common.payload_len => {
                payload.split_off(common.payload_len)
            }
            _ => Vec::new(),
        };
        self.payload = payload;
        surplus
    }

    /// Takes the memory of a PDU's data back, for the next one: fresh memory of large data costs more
    /// than filling it.
    pub fn recycle(&mut self, memory: Vec<u8>) {
        if memory.capacity() > self.spare.capacity() {
            self.spare = memory;
        }
    }

    /// Memory for the data, when its first byte is there or awaited: by then it was announced.
    fn make_room(&mut self, common: Checked) {
        if self.payload.capacity() < common.payload_len {
            let mut memory = core::mem::take(&mut self.spare);
            memory.clear();
            memory.reserve_exact(common.payload_len);
            self.payload = memory;
        }
    }

    /// True if the next step needs no bytes.
    fn is_ready(&self) -> bool {
        match self.state {
            State::Common | State::Failed => false,
            State::Head { until, .. } => self.head.len() == until,
            State::Payload { .. } => self.missing() == 0,
            State::Tail { common } => !common.has_data_digest || self.tail.len() == DIGEST_BYTES,
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Result<(usize, Option<Pdu>), FatalError> {
        match self.state {
            State::Common => {
                let count = fill(&mut self.head, COMMON_BYTES, bytes);
                if self.head.len() == COMMON_BYTES {
                    let (common, until) = self.check_common()?;
                    self.state = State::Head { common, until };
                }
                Ok((count, None))
            }
            State::Head { common, until } => {
                let count = fill(&mut self.head, until, bytes);
                if self.head.len() == until {
                    self.check_header_digest(common)?;
                    self.state = State::Payload { common };
                    self.begun = self.announce(common)?;
                }
                Ok((count, None))
            }
            State::Payload { common } => {
                self.make_room(common);
                let count = fill(&mut self.payload, common.payload_len, bytes);
                if self.missing() == 0 {
                    self.state = State::Tail { common };
                }
                Ok((count, None))
            }
            State::Tail { common } => {
                let until = if common.has_data_digest {
                    DIGEST_BYTES
                } else {
                    0
                };
                let count = fill(&mut self.tail, until, bytes);
                let pdu = (self.tail.len() == until).then(|| self.finish(common));
                Ok((count, pdu.transpose()?))
            }
            State::Failed => Err(self.error(FatalStatus::Sequence, 0)),
        }
    }

    fn error(&self, status: FatalStatus, detail: u32) -> FatalError {
        FatalError::new(status, detail, &self.head)
    }

    /// Checks the first eight bytes; gives where the head ends.
    fn check_common(&self) -> Result<(Checked, usize), FatalError> {
        let wrong = |at| self.error(FatalStatus::InvalidField, at);
        let raw = RawCommon::read_from_bytes(&self.head).map_err(|_| wrong(offset::KIND))?;
        let kind = Kind::from_code(raw.kind).ok_or_else(|| wrong(offset::KIND))?;
        if kind.sender() != self.sender {
            return Err(wrong(offset::KIND));
        }
        let hlen = kind.header_bytes();
        if usize::from(raw.hlen) != hlen {
            return Err(wrong(offset::HLEN));
        }
        let has_header_digest = kind.has_digests() && self.digests.header;
        if kind.has_digests() && (raw.flags & flag::HDGST != 0) != has_header_digest {
            return Err(wrong(offset::FLAGS));
        }
        let end = hlen + if has_header_digest { DIGEST_BYTES } else { 0 };
        let plen = usize::try_from(raw.plen.get()).map_err(|_| wrong(offset::PLEN))?;
        let rest = plen.checked_sub(end).ok_or_else(|| wrong(offset::PLEN))?;
        let bare = Checked {
            kind,
            flags: raw.flags,
            has_header_digest,
            has_data_digest: false,
            payload_len: 0,
        };
        match kind {
            _ if rest == 0 && !kind.has_data() => Ok((bare, end)),
            Kind::H2cTermReq | Kind::C2hTermReq if rest <= TERM_DATA_MAX => {
                let payload_len = rest;
                Ok((
                    Checked {
                        payload_len,
                        ..bare
                    },
                    end,
                ))
            }
            Kind::CapsuleCmd if rest == 0 => Ok((bare, end)),
            Kind::CapsuleCmd | Kind::H2cData | Kind::C2hData => {
                self.check_data(bare, &raw, end, plen)
            }
            _ => Err(wrong(offset::PLEN)),
        }
    }

    /// Checks where data lies and how long it is.
    fn check_data(
        &self,
        bare: Checked,
        raw: &RawCommon,
        end: usize,
        plen: usize,
    ) -> Result<(Checked, usize), FatalError> {
        let wrong = |at| self.error(FatalStatus::InvalidField, at);
        let has_data_digest = self.digests.data;
        if (raw.flags & flag::DDGST != 0) != has_data_digest {
            return Err(wrong(offset::FLAGS));
        }
        let pdo = usize::from(raw.pdo);
        let alignment = (usize::from(self.limits.pda) + 1) * 4;
        if pdo < end || pdo > HEADER_BYTES_MAX || !pdo.is_multiple_of(alignment) {
            return Err(wrong(offset::PDO));
        }
        let tail = if has_data_digest { DIGEST_BYTES } else { 0 };
        let payload_len = plen
            .checked_sub(pdo + tail)
            .filter(|len| *len > 0)
            .ok_or_else(|| wrong(offset::PLEN))?;
        let (max, status) = match bare.kind {
            Kind::CapsuleCmd => (self.limits.capsule_data_max, FatalStatus::InvalidField),
            _ => (self.limits.data_max, FatalStatus::LimitExceeded),
        };
        if payload_len as u64 > u64::from(max) {
            let detail = match status {
                FatalStatus::InvalidField => offset::PLEN,
                _ => 0,
            };
            return Err(self.error(status, detail));
        }
        let checked = Checked {
            has_data_digest,
            payload_len,
            ..bare
        };
        Ok((checked, pdo))
    }

    /// Compares the header's digest.
    fn check_header_digest(&self, common: Checked) -> Result<(), FatalError> {
        if !common.has_header_digest {
            return Ok(());
        }
        let (header, rest) = self.head.split_at(common.kind.header_bytes());
        let mut found = [0; DIGEST_BYTES];
        found.copy_from_slice(&rest[..DIGEST_BYTES]);
        if data_digest(&[header]) == found {
            return Ok(());
        }
        let detail = u32::from_le_bytes(found);
        Err(FatalError::new(FatalStatus::HeaderDigest, detail, header))
    }

    /// The header, if there is data to be announced.
    fn announce(&self, common: Checked) -> Result<Option<Head>, FatalError> {
        if !self.is_announcing || common.payload_len == 0 {
            return Ok(None);
        }
        let (header, raw) = self.header(common)?;
        Ok(Some(Head {
            header,
            flags: common.flags,
            data_bytes: common.payload_len,
            raw,
        }))
    }

    /// The header, decoded and as it came.
    fn header(&self, common: Checked) -> Result<(Header, [u8; HEADER_BYTES_MAX]), FatalError> {
        let hlen = common.kind.header_bytes();
        let specific = &self.head[COMMON_BYTES..hlen];
        let header = Header::from_specific(common.kind, specific)
            .ok_or_else(|| self.error(FatalStatus::InvalidField, offset::HLEN))?;
        if let Header::H2cData(transfer) | Header::C2hData(transfer) = header
            && transfer.datal.get() as usize != common.payload_len
        {
            return Err(self.error(FatalStatus::InvalidField, 16));
        }
        let mut raw = [0; HEADER_BYTES_MAX];
        raw[..hlen].copy_from_slice(&self.head[..hlen]);
        Ok((header, raw))
    }

    /// Gives the PDU and begins anew.
    fn finish(&mut self, common: Checked) -> Result<Pdu, FatalError> {
        let (header, raw) = self.header(common)?;
        let data = core::mem::take(&mut self.payload);
        let digest = match common.has_data_digest {
            false => DataDigest::Absent,
            true if data_digest(&[&data]) == self.tail[..] => DataDigest::Good,
            true => DataDigest::Bad,
        };
        self.head.clear();
        self.tail.clear();
        self.state = State::Common;
        Ok(Pdu {
            header,
            flags: common.flags,
            data,
            digest,
            raw,
        })
    }
}

/// Moves bytes from the front of `bytes` until `into` has `until` bytes; gives how many.
fn fill(into: &mut Vec<u8>, until: usize, bytes: &[u8]) -> usize {
    let count = bytes.len().min(until - into.len());
    into.extend_from_slice(&bytes[..count]);
    count
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
