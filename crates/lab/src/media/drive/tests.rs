//! What is written comes back, wherever regions end.

use super::super::leaves::LeafName;
use super::super::store::REGION_BYTES_MAX;
use super::*;
use varve_format::LEAF_BYTES;
use varve_io::Sectors;
use varve_units::{LeafIndex, SECTOR, VolumeId};

/// Of small chunks, or groups of an odd number of stripes, several lie in a mebibyte: one that is written
/// anew took its neighbours' content with it.
#[test]
fn a_unit_written_anew_leaves_its_neighbours() {
    let geometry = Geometry {
        chunk_bytes: 3 << 16,
        chunks: 4,
        lba_bytes: 512,
        group_blocks: 48,
        groups: 4,
        stripe_blocks: 16,
        p2l_copies: 1,
        slices: 1,
    };
    let tiers = [
        (ModelDrive::fast as fn(&_, _, _, _) -> _, 3 << 16),
        (ModelDrive::dense, 48 << 12),
    ];
    let keepings = [Keeping::Packed, Keeping::Plain];
    for ((make, unit), keeping) in tiers
        .iter()
        .flat_map(|tier| keepings.map(|keeping| (*tier, keeping)))
    {
        let drive: ModelDrive = make(&geometry, keeping, 1 << 30, Rc::default());
        let write = |unit_index: u64, fill: u8| {
            let mut sectors = Sectors::zeroed(8);
            sectors.bytes_mut().fill(fill);
            let mut gather = Gather::new();
            gather.push_meta(sectors);
            drive.write(unit_index * unit, &gather).expect("it is on");
        };
        let read = |unit_index: u64| {
            let mut into = Target::Meta(Sectors::zeroed(8));
            drive.read(unit_index * unit, &mut into).expect("it is on");
            let Target::Meta(sectors) = into else {
                unreachable!("sectors were asked for");
            };
            sectors.bytes()[0]
        };
        (0..4).for_each(|index| write(index, 1 + index as u8));
        write(0, 9);
        write(2, 8);
        assert_eq!([0, 1, 2, 3].map(read), [9, 2, 8, 4]);
    }
}

/// Pieces of metadata reach over the ends of regions, and are read from any sector on.
#[test]
fn metadata_come_back_wherever_regions_end() {
    let geometry = Geometry {
        chunk_bytes: 1 << 16,
        chunks: 4,
        lba_bytes: 512,
        group_blocks: 16,
        groups: 4,
        stripe_blocks: 16,
        p2l_copies: 1,
        slices: 1,
    };
    for keeping in [Keeping::Packed, Keeping::Plain] {
        let drive = ModelDrive::fast(&geometry, keeping, 1 << 30, Rc::default());
        let mut piece = Sectors::zeroed(300);
        for (sector, bytes) in piece.bytes_mut().chunks_exact_mut(SECTOR).enumerate() {
            bytes.fill(sector as u8);
        }
        let mut gather = Gather::new();
        gather.push_meta(piece);
        drive.write(100 << 9, &gather).expect("it is on");
        for first in [0, 27, 28, 29, 150, 156, 280] {
            let mut into = Sectors::zeroed(20);
            drive.store.borrow().read_meta(100 + first, &mut into);
            let found = into.bytes().iter().step_by(SECTOR).copied();
            assert!(found.eq((first..first + 20).map(|sector| sector as u8)));
        }
    }
}

/// Images lie wherever the batch has them, also where one region of a chunk ends and the next begins: one that
/// did came back half as zeroes, and the engine took its leaf for lost.
#[test]
fn a_leaf_image_may_cross_from_region_to_region() {
    let geometry = Geometry {
        chunk_bytes: 2 * REGION_BYTES_MAX,
        chunks: 2,
        lba_bytes: 512,
        group_blocks: 512,
        groups: 2,
        stripe_blocks: 256,
        p2l_copies: 1,
        slices: 1,
    };
    let drive = ModelDrive::fast(&geometry, Keeping::Packed, 1 << 30, Rc::default());
    let image: Vec<u8> = (0..LEAF_BYTES).map(|at| (at % 251) as u8 + 1).collect();
    let leaf = LeafName::new(VolumeId(1), LeafIndex(7));
    let border = REGION_BYTES_MAX / SECTOR_BYTES;
    for before in 0..=(LEAF_BYTES / SECTOR) as u64 {
        let mut store = drive.store.borrow_mut();
        store.store_leaf(border - before, leaf, &image);
        let mut into = Sectors::zeroed(LEAF_BYTES / SECTOR);
        store.read_meta(border - before, &mut into);
        assert_eq!(
            into.bytes(),
            &image[..],
            "{before} sectors before the border"
        );
    }
}
