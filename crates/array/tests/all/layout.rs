//! The stripe set's layout, enumerated.

use std::collections::{BTreeMap, BTreeSet};
use varve_array::{Content, Geometry, GeometryError, Protection};

const BLOCK: u64 = 4096;

/// Every small geometry.
fn geometries() -> Vec<Geometry> {
    let mut all = Vec::new();
    for drives in 1..=7 {
        for strip in [1, 3] {
            for (zone, groups) in [(1, 1), (4, 3), (5, 2)] {
                let data = drives.max(1) - 1;
                for protection in [
                    Protection::None,
                    Protection::Mirror,
                    Protection::Parity { data },
                ] {
                    all.extend(Geometry::new(drives, strip, zone, groups, protection));
                }
            }
        }
    }
    assert_eq!(
        all.len(),
        6 * (7 + 3 + 5),
        "drives, even drives, three and more"
    );
    all
}

/// Each data block has one place; with the parity strips they fill every drive exactly.
#[test]
fn data_and_parity_fill_the_drives_without_collision() {
    for geometry in geometries() {
        let strip = geometry.strip_bytes() / BLOCK;
        let mut taken = BTreeSet::new();
        for block in 0..geometry.data_bytes() / BLOCK {
            let place = geometry.place(block);
            let height = place.stripe * strip + place.block;
            let direct = geometry.direct(place.stripe, place.strip);
            assert!(taken.insert((direct, height)), "{geometry:?} {place:?}");
            if geometry.protection() == Protection::Mirror {
                assert!(taken.insert((direct ^ 1, height)), "{geometry:?} {place:?}");
            }
        }
        for stripe in 0..geometry.stripes() {
            if let Some(drive) = geometry.parity(stripe) {
                for block in 0..strip {
                    let is_free = taken.insert((drive, stripe * strip + block));
                    assert!(is_free, "{geometry:?} parity of stripe {stripe}");
                }
            }
        }
        let blocks = geometry.member_bytes() / BLOCK * geometry.drives() as u64;
        assert_eq!(taken.len() as u64, blocks, "{geometry:?}");
    }
}

/// The way from drive to content is the inverse of the way from content to drive.
#[test]
fn content_is_the_inverse_of_place() {
    for geometry in geometries() {
        for stripe in 0..geometry.stripes() {
            let mut found = BTreeMap::new();
            for drive in 0..geometry.drives() {
                let content = geometry.content(stripe, drive);
                *found.entry(content).or_insert(0) += 1;
                match content {
                    Content::Parity => assert_eq!(geometry.parity(stripe), Some(drive)),
                    Content::Data(strip) => {
                        let direct = geometry.direct(stripe, strip);
                        let is_mirror = geometry.protection() == Protection::Mirror;
                        assert!(direct == drive || is_mirror && direct ^ 1 == drive);
                    }
                }
            }
            let copies = 1 + usize::from(geometry.protection() == Protection::Mirror);
            for strip in 0..geometry.data_strips() {
                assert_eq!(
                    found.get(&Content::Data(strip)),
                    Some(&copies),
                    "{geometry:?}"
                );
            }
        }
    }
}

/// The picture in the module's documentation.
#[test]
fn parity_rotates_as_documented() {
    let geometry = Geometry::new(4, 1, 4, 2, Protection::Parity { data: 3 }).unwrap();
    let parity: Vec<_> = (0..8)
        .map(|stripe| geometry.parity(stripe).unwrap())
        .collect();
    assert_eq!(parity, [3, 2, 1, 0, 3, 2, 1, 0]);
    let direct: Vec<_> = (0..12).map(|block| block as usize % 4).collect();
    let found: Vec<_> = (0..12)
        .map(|block| geometry.place(block))
        .map(|place| geometry.direct(place.stripe, place.strip))
        .collect();
    assert_eq!(found, direct, "reading in order visits all drives in turn");
    let mirror = Geometry::new(4, 1, 4, 1, Protection::Mirror).unwrap();
    let direct = |stripe| [mirror.direct(stripe, 0), mirror.direct(stripe, 1)];
    assert_eq!([direct(0), direct(1), direct(2)], [[0, 2], [1, 3], [0, 2]]);
}

#[test]
fn groups_are_aligned_zones() {
    for geometry in geometries() {
        for group in 0..geometry.groups() {
            let stripes = geometry.group_stripes(group);
            let first = geometry.place(group * geometry.group_bytes() / BLOCK);
            let last = geometry.place((group + 1) * geometry.group_bytes() / BLOCK - 1);
            assert_eq!(
                (first.stripe, last.stripe + 1),
                (stripes.start, stripes.end)
            );
            let start = stripes.start * geometry.strip_bytes();
            assert_eq!(start, group * geometry.zone_bytes());
        }
    }
}

#[test]
fn bad_geometries_are_refused() {
    let parity = |data| Protection::Parity { data };
    let refused = |drives, strip, zone, groups, protection| {
        Geometry::new(drives, strip, zone, groups, protection).unwrap_err()
    };
    let none = Protection::None;
    let errors = [
        refused(0, 1, 1, 1, none),
        refused(101, 1, 1, 1, none),
        refused(2, 0, 1, 1, none),
        refused(2, 1, 0, 1, none),
        refused(2, 1, 1, 0, none),
        refused(3, 1, 1, 1, Protection::Mirror),
        refused(2, 1, 1, 1, parity(1)),
        refused(5, 1, 1, 1, parity(3)),
        refused(3, 1, 1, 1, parity(3)),
        refused(2, 1 << 40, 1 << 40, 1, none),
        refused(2, 1 << 20, 1 << 20, 1, none),
    ];
    let (drives, data, most) = (5, 3, 100);
    assert_eq!(errors[1], GeometryError::Drives { drives: 101, most });
    assert_eq!(errors[5], GeometryError::OddMirror { drives: 3 });
    assert_eq!(errors[6], GeometryError::NarrowParity { data: 1 });
    assert_eq!(errors[7], GeometryError::ParityDrives { drives, data });
    assert_eq!(errors[9], errors[10]);
    let messages: BTreeSet<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages.len(),
        10,
        "no two variants print alike: {messages:?}"
    );
}
