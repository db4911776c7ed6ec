//! What lies on one drive, read from its bytes alone: labels, the log, the newest checkpoint.
//!
//! **Not here**: what only several drives tell together (strips of the dense tier, which tables
//! count): that is what an import and a check find out.

use crate::random;
use crate::scan::{copies, open};
use crate::status::protect_word;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use varve_format::batch::{self, BATCH_HEADER_BYTES_MAX, BatchHead};
use varve_format::{
    CHUNK_HEAD_BYTES, ChunkHeader, CommitBody, Geometry, Label, MemberRole, MemberState,
    PayloadLayout, Record,
};
use varve_ftl::Identity;
use varve_pool::label::RESERVED_BYTES;
use varve_units::SECTOR_BYTES;

/// A member as a label has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberView {
    /// Number of the drive in the pool.
    pub id: u32,
    /// `fast` or `dense`.
    pub role: String,
    /// Its place in its tier.
    pub slot: u8,
    /// `active`, `lost`, `rebuilding` or `removed`.
    pub state: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// One copy of a label.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LabelView {
    /// Name of the pool.
    pub pool: String,
    /// Identity of the pool, 32 hexadecimal digits.
    pub id: String,
    /// Number of the drive it is on.
    pub drive: u32,
    /// Version of the member table.
    pub generation: u64,
    /// Labels written to this drive.
    pub copy_sequence: u64,
    /// Starts of the pool.
    pub epoch: u32,
    /// Who used the pool last; zeroes if it was released.
    pub owner: String,
    /// Raised while the pool is in use.
    pub heartbeat: u64,
    /// The pool was closed in good order.
    pub is_clean: bool,
    /// The pool is being created, or that was cut short.
    pub is_unfinished: bool,
    /// Protection of the dense tier.
    pub protect: String,
    /// Bytes of the smallest write of its drives: 512 or 4096.
    pub lba_bytes: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Chunks of the fast tier.
    pub chunks: u32,
    /// Groups of the dense tier.
    pub groups: u32,
    /// All drives.
    pub members: Vec<MemberView>,
}

/// One chunk that has a header.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ChunkView {
    /// Its number.
    pub chunk: u32,
    /// The start of the pool it was written in.
    pub epoch: u32,
    /// Its lane.
    pub lane: u16,
    /// Number of the chunk within lane and epoch.
    pub sequence: u64,
    /// LSN of its first record.
    pub first_lsn: u64,
    /// LSN behind its last record.
    pub end_lsn: u64,
    /// Batches that follow one another without a gap.
    pub batches: u64,
    /// Bytes of these, the header included.
    pub used_bytes: u64,
    /// Records of host writes.
    pub puts: u64,
    /// Records of moved blocks, and of blocks that were kept.
    pub moves: u64,
    /// Records of deallocations.
    pub discards: u64,
    /// Images of leaves.
    pub leaves: u64,
    /// Parts and commits of checkpoints.
    pub checkpoints: u64,
    /// Records of the catalogue.
    pub catalogue: u64,
    /// Data blocks.
    pub data_blocks: u64,
}

/// A commit of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommitView {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// The start of the pool it was written in.
    pub epoch: u32,
    /// Where its body lies: sector of the fast tier.
    pub sector: u64,
    /// Parts that a start must read.
    pub parts: u64,
    /// Bytes of these.
    pub part_bytes: u64,
    /// Lanes, with the sector where the redo of each begins.
    pub redo_sectors: Vec<u64>,
    /// The next volume number.
    pub next_volume: u64,
}

/// What lies on a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InspectView {
    /// Where.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Both copies of the label; none where a copy does not pass its checks.
    pub labels: Vec<Option<LabelView>>,
    /// `fast` or `dense`, if a label says so.
    pub role: Option<String>,
    /// Chunks with a header of this pool, in order (fast drives).
    pub log: Vec<ChunkView>,
    /// Chunks without (fast drives).
    pub blank_chunks: u64,
    /// The newest commit that can be read (fast drives).
    pub checkpoint: Option<CommitView>,
}

/// Looks at a drive, without a lock and without changing anything.
///
/// # Errors
/// The system's.
pub fn inspect(path: &Path) -> io::Result<InspectView> {
    let file = open(path)?;
    let bytes = (&file).seek(SeekFrom::End(0))?;
    let labels = copies(&file)?;
    let newest = labels
        .iter()
        .flatten()
        .max_by_key(|label| (label.generation, label.copy_sequence));
    let own = newest.and_then(|label| {
        let mut members = label.members.iter();
        members.find(|member| member.id == label.drive)
    });
    let mut view = InspectView {
        path: path.to_owned(),
        bytes,
        labels: labels
            .iter()
            .map(|label| label.as_ref().map(label_view))
            .collect(),
        role: own.map(|member| role(member.role).to_owned()),
        log: Vec::new(),
        blank_chunks: 0,
        checkpoint: None,
    };
    if let (Some(label), Some(MemberRole::Fast)) = (newest, own.map(|member| member.role)) {
        Log::new(&file, label).read(&mut view);
    }
    Ok(view)
}

const fn role(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Fast => "fast",
        MemberRole::Dense => "dense",
        MemberRole::Spare => "spare",
    }
}

fn label_view(label: &Label) -> LabelView {
    let member = |member: &varve_format::Member| MemberView {
        id: member.id,
        role: role(member.role).to_owned(),
        slot: member.slot,
        state: match member.state {
            MemberState::Active => "live",
            MemberState::Failed => "lost",
            MemberState::Rebuilding => "rebuilding",
            MemberState::Removed => "removed",
        }
        .to_owned(),
        bytes: member.size_bytes,
    };
    LabelView {
        pool: label.name.as_str().to_owned(),
        id: random::hex(&label.pool),
        drive: label.drive,
        generation: label.generation,
        copy_sequence: label.copy_sequence,
        epoch: label.epoch,
        owner: random::hex(&label.owner),
        heartbeat: label.heartbeat,
        is_clean: label.is_clean,
        is_unfinished: label.is_unfinished,
        protect: protect_word(&label.geometry),
        lba_bytes: label.geometry.lba_bytes,
        chunk_bytes: label.geometry.chunk_bytes,
        chunks: label.geometry.chunks,
        groups: label.geometry.groups,
        members: label.members.iter().map(member).collect(),
    }
}

/// The log of one fast drive.
struct Log<'a> {
    file: &'a File,
    geometry: Geometry,
    pool: [u8; 16],
}

impl<'a> Log<'a> {
    fn new(file: &'a File, label: &Label) -> Self {
        Self {
            file,
            geometry: label.geometry,
            pool: label.pool,
        }
    }

    const fn chunk_sectors(&self) -> u64 {
        self.geometry.chunk_bytes / SECTOR_BYTES
    }

    /// Bytes of the tier; `None` where the drive ends or cannot be read.
    fn bytes(&self, sector: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let offset = sector
            .checked_mul(SECTOR_BYTES)?
            .checked_add(RESERVED_BYTES)?;
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    fn read(&self, view: &mut InspectView) {
        for chunk in 0..self.geometry.chunks {
            let address = u64::from(chunk) * self.chunk_sectors();
            let head = self.bytes(address, CHUNK_HEAD_BYTES).unwrap_or_default();
            let headers = ChunkHeader::decode_each(&head, &self.pool, address);
            let header = headers.max_by_key(|header| (header.epoch, header.stamp));
            match header {
                Some(header) => view
                    .log
                    .push(self.chunk(chunk, &header, &mut view.checkpoint)),
                None => view.blank_chunks += 1,
            }
        }
    }

    fn chunk(
        &self,
        chunk: u32,
        header: &ChunkHeader,
        newest: &mut Option<CommitView>,
    ) -> ChunkView {
        let mut view = ChunkView {
            chunk,
            epoch: header.epoch,
            lane: header.lane.0,
            sequence: header.chunk_sequence,
            first_lsn: header.first_lsn.0,
            end_lsn: header.first_lsn.0,
            used_bytes: CHUNK_HEAD_BYTES as u64,
            ..ChunkView::default()
        };
        let mut sector = header.address + CHUNK_HEAD_BYTES as u64 / SECTOR_BYTES;
        let end = header.address + self.chunk_sectors();
        while sector < end
            && let Some((head, records)) = self.batch(header, sector)
        {
            view.batches += 1;
            view.used_bytes += head.batch_bytes();
            view.data_blocks += u64::from(head.data_blocks);
            view.end_lsn = head.first_lsn.0 + u64::from(head.records);
            for (record, place) in records.iter().zip(PayloadLayout::new(&head, &records)) {
                count(&mut view, record);
                if let Record::Commit { bytes, .. } = record {
                    let body = self.commit(place.meta_sector, *bytes as usize);
                    let is_newer = |body: &CommitView| {
                        newest
                            .as_ref()
                            .is_none_or(|newest| body.checkpoint >= newest.checkpoint)
                    };
                    if let Some(body) = body.filter(is_newer) {
                        *newest = Some(body);
                    }
                }
            }
            sector += head.batch_bytes() / SECTOR_BYTES;
        }
        view
    }

    /// The batch at a place, if one of this use of the chunk is there.
    fn batch(&self, chunk: &ChunkHeader, sector: u64) -> Option<(BatchHead, Vec<Record>)> {
        let identity = Identity {
            pool: self.pool,
            epoch: chunk.epoch,
        };
        let first = self.bytes(sector, self.geometry.lba_bytes as usize)?;
        let head = batch::decode_head(&first).ok()?;
        let is_own = head.address == sector
            && head.chunk_sequence == chunk.chunk_sequence
            && head.lane == chunk.lane
            && head.epoch == identity.tag(chunk.epoch);
        let length = head.header_bytes as usize;
        if !is_own || length > BATCH_HEADER_BYTES_MAX {
            return None;
        }
        let whole = self.bytes(sector, length)?;
        batch::decode(&whole)
            .ok()
            .filter(|(head, _)| head.batch_bytes() > 0)
    }

    fn commit(&self, sector: u64, bytes: usize) -> Option<CommitView> {
        let body = CommitBody::decode(&self.bytes(sector, bytes)?).ok()?;
        Some(CommitView {
            checkpoint: body.checkpoint,
            epoch: body.epoch,
            sector,
            parts: body.parts.len() as u64,
            part_bytes: body.parts.iter().map(|part| u64::from(part.bytes)).sum(),
            redo_sectors: body.lanes.iter().map(|lane| lane.sector).collect(),
            next_volume: body.next_volume,
        })
    }
}

fn count(view: &mut ChunkView, record: &Record) {
    use varve_format::RecordKind;
    let is_move = matches!(record, Record::Move { .. } | Record::Keep { .. });
    *match record.kind() {
        RecordKind::Put if is_move => &mut view.moves,
        RecordKind::Put => &mut view.puts,
        RecordKind::Discard => &mut view.discards,
        RecordKind::Leaf => &mut view.leaves,
        RecordKind::Checkpoint => &mut view.checkpoints,
        RecordKind::Catalogue => &mut view.catalogue,
    } += 1;
}
