//! Structures drawn from a seed.

use varve_format::{
    BatchStart, CatalogueEntry, ChunkEntry, ChunkHeader, ChunkState, CommitBody, CommitPlace, Crcs,
    Gap, Geometry, GroupEntry, GroupState, KeepItem, LBA_END, Label, LanePosition, Member,
    MemberRole, MemberState, MoveItem, NARROW_MEMBERS, Name, Narrow, NarrowGroup, NarrowTail, P2l,
    P2lEntry, PartKind, PartPlace, Protection, Record, Tier, UnitBits, VolumeState,
};
use varve_units::{
    Blocks, Generation, LaneId, Lba, LeafIndex, Lsn, Nanos, Ppa, SliceId, TenantId, VolumeId,
};

/// SplitMix64.
pub struct Draw(pub u64);

impl Draw {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// 1 to `max`, small numbers and the maximum more often than others.
    pub fn count(&mut self, max: u64) -> usize {
        let count = match self.below(8) {
            0 => max,
            1..=5 => 1 + self.below(max.min(12)),
            _ => 1 + self.below(max),
        };
        usize::try_from(count).unwrap()
    }

    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }

    pub fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[0]
    }

    pub fn half(&mut self) -> u32 {
        u32::try_from(self.word() >> 32).unwrap()
    }

    pub fn short(&mut self) -> u16 {
        u16::try_from(self.word() >> 48).unwrap()
    }

    fn id(&mut self) -> [u8; 16] {
        (u128::from(self.word()) << 64 | u128::from(self.word())).to_le_bytes()
    }

    fn lsn(&mut self) -> Lsn {
        Lsn(self.below(1 << 55))
    }

    fn lba(&mut self) -> Lba {
        Lba(self.below(LBA_END))
    }

    fn place(&mut self) -> Ppa {
        Ppa::dense(self.below(Ppa::RESERVED))
    }

    fn volume(&mut self) -> VolumeId {
        VolumeId(self.word().max(1))
    }

    fn name(&mut self) -> Name {
        let letters = b"abcXYZ019._-";
        let text: String = (0..self.count(48))
            .map(|_| char::from(letters[self.index(letters.len())]))
            .collect();
        Name::new(&text).unwrap()
    }

    fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    fn run(&mut self) -> (Lba, Crcs) {
        let lba = self.lba();
        let count = self.count(512 - lba.index() as u64);
        (lba, (0..count).map(|_| self.half()).collect())
    }

    pub fn record(&mut self) -> Record {
        match self.below(9) {
            0 => {
                let (lba, crcs) = self.run();
                Record::Put {
                    volume: self.volume(),
                    lba,
                    class: self.byte(),
                    crcs,
                }
            }
            1 => {
                let (lba, crcs) = self.run();
                Record::External {
                    volume: self.volume(),
                    lba,
                    ppa: Ppa::dense(self.below(Ppa::RESERVED - 512)),
                    class: self.byte(),
                    crcs,
                }
            }
            2 => Record::Move {
                slice: SliceId(self.short()),
                volume: self.volume(),
                items: (0..self.count(512)).map(|_| self.move_item()).collect(),
            },
            3 => Record::Keep {
                slice: SliceId(self.short()),
                volume: self.volume(),
                items: (0..self.count(512)).map(|_| self.keep_item()).collect(),
            },
            _ => self.small_record(),
        }
    }

    fn small_record(&mut self) -> Record {
        match self.below(5) {
            0 => {
                let lba = self.lba();
                Record::Discard {
                    slice: SliceId(self.short()),
                    volume: self.volume(),
                    lba,
                    blocks: 1 + self.below(LBA_END - lba.0),
                    zero: self.below(2) == 1,
                }
            }
            1 => Record::Leaf {
                volume: self.volume(),
                leaf: LeafIndex(self.below(LBA_END / 512)),
                through: self.lsn(),
                crc: self.half(),
            },
            2 => Record::Part {
                checkpoint: self.word(),
                kind: self.one_of(PartKind::ALL),
                slice: SliceId(self.short()),
                index: self.half(),
                bytes: u32::try_from(self.count(64 << 10)).unwrap(),
                crc: self.half(),
            },
            3 => Record::Commit {
                checkpoint: self.word(),
                bytes: u32::try_from(self.count(1 << 20)).unwrap(),
                crc: self.half(),
            },
            _ => Record::Catalogue {
                entry: Box::new(self.catalogue_entry()),
            },
        }
    }

    fn move_item(&mut self) -> MoveItem {
        MoveItem {
            lba: self.lba(),
            old: self.place(),
            new: self.place(),
            class: self.byte(),
        }
    }

    fn keep_item(&mut self) -> KeepItem {
        KeepItem {
            lba: self.lba(),
            old: self.place(),
            class: self.byte(),
            birth: self.lsn(),
            crc: self.half(),
        }
    }

    pub fn records(&mut self, max: u64) -> Vec<Record> {
        (0..self.count(max)).map(|_| self.record()).collect()
    }

    pub fn batch_start(&mut self) -> BatchStart {
        BatchStart {
            epoch: self.half(),
            lane: LaneId(self.short()),
            sequence: self.word(),
            address: self.below(1 << 40),
            chunk_sequence: self.word(),
            durable_through: self.lsn(),
            first_lsn: self.lsn(),
        }
    }

    pub fn catalogue_entry(&mut self) -> CatalogueEntry {
        let id = self.below(1 << 40) + 1;
        CatalogueEntry {
            id: VolumeId(id),
            uuid: self.id(),
            nguid: self.id(),
            size: Blocks(1 + self.below(1 << 40)),
            tenant: TenantId(self.half()),
            state: self.one_of(VolumeState::ALL),
            parent: (self.below(2) == 1).then_some(VolumeId(id + 1)),
            name: self.name(),
        }
    }

    pub fn chunk_header(&mut self) -> ChunkHeader {
        let commit = CommitPlace {
            checkpoint: self.word(),
            epoch: self.half(),
            sector: self.word(),
        };
        ChunkHeader {
            pool: self.id(),
            epoch: self.half(),
            address: self.word(),
            lane: LaneId(self.short()),
            chunk_sequence: self.word(),
            generation: Generation(self.half()),
            stamp: self.lsn(),
            first_lsn: self.lsn(),
            first_batch: self.word(),
            commit: (self.below(4) > 0).then_some(commit),
        }
    }

    pub fn gap(&mut self) -> Gap {
        Gap {
            pool: self.id(),
            address: self.word(),
            stamp: self.lsn(),
        }
    }

    pub fn commit_body(&mut self) -> CommitBody {
        CommitBody {
            checkpoint: self.word(),
            epoch: self.half(),
            window: self.half(),
            table_stamp: self.lsn(),
            bits_stamp: self.lsn(),
            lanes: (0..self.below(9)).map(|_| self.lane_position()).collect(),
            cuts: (0..self.below(257)).map(|_| self.lsn()).collect(),
            next_volume: self.word(),
            has_narrow: self.count(2) == 1,
            parts: (0..self.below(40)).map(|_| self.part_place()).collect(),
        }
    }

    fn lane_position(&mut self) -> LanePosition {
        LanePosition {
            lane: LaneId(self.short()),
            chunk: self.half(),
            sector: self.word(),
            batch: self.word(),
            chunk_sequence: self.word(),
            first_lsn: self.lsn(),
        }
    }

    fn part_place(&mut self) -> PartPlace {
        PartPlace {
            checkpoint: self.word(),
            kind: self.one_of(PartKind::ALL),
            slice: SliceId(self.short()),
            index: self.half(),
            sector: self.word(),
            bytes: u32::try_from(self.count(256 << 10)).unwrap(),
            crc: self.half(),
        }
    }

    pub fn group_entry(&mut self) -> GroupEntry {
        GroupEntry {
            state: self.one_of(GroupState::ALL),
            generation: Generation(self.half()),
            stamp: self.lsn(),
            write_pointer: self.half(),
            stream: self.half(),
            tenant: TenantId(self.half()),
            is_resumed: self.count(2) == 1,
            closed_at: Nanos(self.word()),
            narrow: self.narrow_group(),
        }
    }

    pub fn chunk_entry(&mut self) -> ChunkEntry {
        ChunkEntry {
            state: self.one_of(ChunkState::ALL),
            lane: LaneId(self.short()),
            generation: Generation(self.half()),
            stamp: self.lsn(),
            write_pointer: self.half(),
            chunk_sequence: self.word(),
        }
    }

    pub fn unit_bits(&mut self) -> UnitBits {
        UnitBits {
            tier: self.one_of(Tier::ALL),
            unit: self.half(),
            generation: Generation(self.half()),
            write_pointer: self.half(),
            first_word: self.half() >> 1,
            words: (0..self.count(100)).map(|_| self.word()).collect(),
        }
    }

    pub fn p2l(&mut self, max: u64) -> P2l {
        let entries = (0..self.count(max)).map(|_| match self.below(5) {
            0 => P2lEntry::PADDING,
            _ => P2lEntry {
                volume: self.volume(),
                lba: self.lba(),
                birth: self.lsn(),
                crc: self.half(),
            },
        });
        let entries = entries.collect();
        P2l {
            epoch: self.half(),
            group: self.half(),
            generation: Generation(self.half()),
            stripe: self.half(),
            narrow: self.narrow(),
            entries,
        }
    }

    fn narrow_group(&mut self) -> Option<NarrowGroup> {
        (self.below(2) == 1).then(|| NarrowGroup {
            member: self.below(u64::from(NARROW_MEMBERS)) as u8,
            from: self.half(),
        })
    }

    fn narrow(&mut self) -> Option<Narrow> {
        let tails = [NarrowTail::Data, NarrowTail::Zeroes, NarrowTail::Sum];
        (self.below(2) == 1).then(|| Narrow {
            member: self.below(u64::from(NARROW_MEMBERS)) as u8,
            tail: self.one_of(&tails),
        })
    }

    fn geometry(&mut self) -> Geometry {
        let chunk_bytes = 1 << (20 + self.below(11));
        let chunks = 1 + self.half() / 2;
        let stripe_data_blocks = 1 + self.half() / 2;
        let protection = self.one_of(Protection::ALL);
        let parity = u8::try_from(1 + self.below(8)).unwrap();
        Geometry {
            chunk_bytes,
            chunks,
            slices: u16::try_from(1 + self.below(256)).unwrap(),
            group_blocks: stripe_data_blocks + self.half() / 2,
            groups: self.half(),
            stripe_data_blocks,
            strip_blocks: 1 + self.half() / 2,
            protection,
            data_strips: self.byte().max(1),
            parity_strips: if protection == Protection::None {
                0
            } else {
                parity
            },
            lba_bytes: self.one_of(&[512, 4096]),
            fast_bytes: chunk_bytes * u64::from(chunks) + self.below(1 << 20),
            over_provision_per_mille: self.short() % 1000,
        }
    }

    pub fn label(&mut self) -> Label {
        let members: Vec<Member> = (0..self.count(100)).map(|id| self.member(id)).collect();
        Label {
            pool: self.id(),
            name: self.name(),
            copy_sequence: self.word(),
            generation: self.word(),
            epoch: self.half(),
            drive: self.one_of(&members).id,
            owner: self.id(),
            heartbeat: self.word(),
            is_clean: self.below(2) == 1,
            is_unfinished: self.below(2) == 1,
            geometry: self.geometry(),
            members,
        }
    }

    fn member(&mut self, id: usize) -> Member {
        Member {
            id: u32::try_from(id).unwrap() * 3,
            role: self.one_of(MemberRole::ALL),
            state: self.one_of(MemberState::ALL),
            slot: self.below(100) as u8,
            held_all: self.below(2) == 1,
            size_bytes: self.word(),
            since: self.word(),
        }
    }
}
