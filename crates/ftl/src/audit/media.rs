//! What lies on the drives against the map: blocks, P2L, parts of the newest commit.

use super::report::{Found, tell};
use super::snapshot::{Reference, Snapshot};
use super::{AuditError, AuditNews, AuditReport, BadCopy, leaves};
use crate::geometry::Tier;
use crate::map::{Base, LeafKey};
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::vec::Vec;
use varve_format::{LeafImage, P2lEntry, PartPlace, block_crc, crc24, crc32c};
use varve_io::Blocks;
use varve_units::{BLOCK_BYTES, SECTOR_BYTES};

/// Blocks read at once at most: 512 KiB, as the cleaner does.
const RUN_MAX: usize = crate::limits::CLEANER_RUN_MAX;

/// Reads every mapped block in order of place and checks it.
pub(super) async fn check_blocks(
    shared: &Shared,
    snapshot: &Snapshot,
    report: &mut AuditReport,
    mut found: Option<&mut Found<'_>>,
) -> Result<(), AuditError> {
    let mut done = 0;
    let copies = usize::from(shared.fast.info().copies)
        .max(shared.dense.as_ref().map_or(0, |d| d.info().copies.into()));
    report.served = alloc::vec![0; copies];
    for run in runs(snapshot) {
        tell(&mut found, "blocks", done, snapshot.references.len());
        done += run.len();
        let (first, shard) = (run[0].place, shared.shard());
        let into = Blocks::new(run.len(), shared.config.elided);
        let drive = shard.drive_of(first.unit);
        let read = drive.read_data(first.offset, into, 0).await.ok();
        for (index, reference) in run.iter().enumerate() {
            let crc = read.as_ref().map(|blocks| block_crc(blocks.block(index)));
            if crc.map(crc24) == Some(reference.crc24) {
                report.served[0] += 1;
            } else {
                let found = crc.map(crc24);
                check_elsewhere(shared, snapshot, reference, found, report).await?;
            }
        }
    }
    Ok(())
}

/// Tells of copies of mapped blocks that do not pass their check.
pub(super) async fn check_copies(shared: &Shared, snapshot: &Snapshot, found: &mut Found<'_>) {
    let mut done = 0;
    for run in runs(snapshot) {
        let all = snapshot.references.len();
        tell(&mut Some(&mut *found), "copies of blocks", done, all);
        done += run.len();
        let (first, shard) = (run[0].place, shared.shard());
        let drive = shard.drive_of(first.unit);
        for copy in 0..drive.info().copies {
            let into = Blocks::new(run.len(), shared.config.elided);
            let read = drive.read_data(first.offset, into, copy).await.ok();
            for (index, reference) in run.iter().enumerate() {
                let is_bad = match &read {
                    Some(blocks) => crc24(block_crc(blocks.block(index))) != reference.crc24,
                    // The run may have failed for another block.
                    None => is_bad_alone(shared, reference, copy).await,
                };
                if is_bad && stands(shared, snapshot, reference).await {
                    let place = reference.place;
                    found(AuditNews::Bad(BadCopy {
                        tier: place.unit.tier,
                        offset: place.offset,
                        bytes: BLOCK_BYTES,
                        copy,
                    }));
                }
            }
        }
    }
}

/// True if a copy of a block is there and does not pass its check; none is where its drive is gone.
async fn is_bad_alone(shared: &Shared, reference: &Reference, copy: u8) -> bool {
    let shard = shared.shard();
    let drive = shard.drive_of(reference.place.unit);
    let into = Blocks::new(1, shared.config.elided);
    let read = drive.read_data(reference.place.offset, into, copy).await;
    match read {
        Ok(blocks) => crc24(block_crc(blocks.block(0))) != reference.crc24,
        Err(error) => !error.is_absence(),
    }
}

/// Mapped blocks that are read at once: neighbours of one unit.
fn runs(snapshot: &Snapshot) -> impl Iterator<Item = &[Reference]> {
    let follows = |one: &Reference, next: &Reference| {
        one.place.unit == next.place.unit && one.place.offset + BLOCK_BYTES == next.place.offset
    };
    let contiguous = snapshot.references.chunk_by(follows);
    contiguous.flat_map(|run| run.chunks(RUN_MAX))
}

/// A block that copy 0 does not serve: any other copy does, or it is no longer what the map needs.
async fn check_elsewhere(
    shared: &Shared,
    snapshot: &Snapshot,
    reference: &Reference,
    mut found: Option<u32>,
    report: &mut AuditReport,
) -> Result<(), AuditError> {
    let (place, shard) = (reference.place, shared.shard());
    let drive = shard.drive_of(place.unit);
    // Copy 0 once more, alone: the run it failed in may have failed for another block.
    for copy in (1..drive.info().copies).chain([0]) {
        let into = Blocks::new(1, shared.config.elided);
        let Ok(blocks) = drive.read_data(place.offset, into, copy).await else {
            continue;
        };
        found = Some(crc24(block_crc(blocks.block(0))));
        if found == Some(reference.crc24) {
            // A drive may be kept, one way more, since the audit began.
            let ways = report.served.len().max(usize::from(copy) + 1);
            report.served.resize(ways, 0);
            report.served[usize::from(copy)] += 1;
            return Ok(());
        }
    }
    let narrow = shared.read_narrow(reference.at.ppa, reference.crc24);
    if narrow.await.is_some() {
        // Summed up, as by the second way.
        report.served[1] += 1;
        return Ok(());
    }
    if stands(shared, snapshot, reference).await {
        return Err(AuditError::BlockUnreadable {
            at: reference.at,
            expected: reference.crc24,
            found,
        });
    }
    report.moved += 1;
    Ok(())
}

/// The P2L of every stripe with mapped blocks names these blocks. In a group that a start went on with it is not known
/// which copy counts as long as one is away ([`Shared::read_p2l`]): that contradicts nothing, and can be asked later.
pub(super) async fn check_p2l(
    shared: &Shared,
    snapshot: &Snapshot,
    report: &mut AuditReport,
    mut found: Option<&mut Found<'_>>,
) -> Result<(), AuditError> {
    let blocks = shared.units.geometry().stripe_blocks;
    let dense = snapshot
        .references
        .partition_point(|one| one.place.unit.tier == Tier::Fast);
    let same = |one: &Reference, next: &Reference| {
        one.place.unit == next.place.unit && one.place.bit / blocks == next.place.bit / blocks
    };
    let (mut done, all) = (0, snapshot.references.len() - dense);
    for mapped in snapshot.references[dense..].chunk_by(same) {
        tell(&mut found, "lists of stripes", done, all);
        done += mapped.len();
        let place = mapped[0].place;
        let stripe = place.bit / blocks;
        let read = shared.read_p2l(place.unit.index, stripe).await;
        let is_resumed = shared.units.unit(place.unit).is_resumed();
        if is_resumed && read.as_ref().is_err_and(|ways| ways.is_pending()) {
            report.stripes_away += 1;
            continue;
        }
        report.stripes += 1;
        let entries = read.ok();
        for reference in mapped {
            let verdict = compare(shared, reference, stripe, entries.as_deref());
            if verdict.is_err() && stands(shared, snapshot, reference).await {
                return verdict;
            }
        }
    }
    Ok(())
}

fn compare(
    shared: &Shared,
    reference: &Reference,
    stripe: u32,
    entries: Option<&[P2lEntry]>,
) -> Result<(), AuditError> {
    let at = reference.at;
    let Some(entries) = entries else {
        let unit = at.unit;
        return Err(AuditError::P2lUnreadable { unit, stripe, at });
    };
    let first = shared.stripe_first_user_block(stripe);
    let entry = reference
        .place
        .bit
        .checked_sub(first)
        .and_then(|index| entries.get(index as usize));
    let Some(entry) = entry else {
        return Err(AuditError::PlaceInP2lArea { at, stripe });
    };
    if (entry.volume, entry.lba, crc24(entry.crc)) == (at.volume, at.lba, reference.crc24) {
        Ok(())
    } else {
        Err(AuditError::P2lDisagrees {
            at,
            expected: reference.crc24,
            found: *entry,
        })
    }
}

/// True if the map still refers to the place, in the same use of its unit.
async fn stands(shared: &Shared, snapshot: &Snapshot, reference: &Reference) -> bool {
    let at = reference.at;
    let key = LeafKey {
        volume: at.volume,
        leaf: at.lba.leaf(),
    };
    let views = shared.everyone();
    let owner = views.map(|views| views[usize::from(shared.owner_of_leaf(key).0)].shard());
    let owner = owner.expect("an audit goes on where it began");
    let mut read: Option<(Base, Box<LeafImage>)> = None;
    loop {
        let generation = shared.units.unit(at.unit).generation();
        if snapshot.generations.get(&at.unit) != Some(&generation)
            || !shared.volumes.borrow().is_present(at.volume)
        {
            return false;
        }
        let image = read.as_ref().map(|(base, image)| (*base, &**image));
        let survey = owner.map.borrow().survey(key, image);
        if let Ok(survey) = survey {
            return survey.entries[at.lba.index()].0.ppa() == at.ppa;
        }
        let base = owner.map.borrow().base(key);
        let Some(base) = base else {
            return false;
        };
        match leaves::read(&owner, key, base).await {
            Ok(image) => read = Some((base, image)),
            Err(_) if owner.map.borrow().base(key) == Some(base) => return true,
            Err(_) => read = None,
        }
    }
}

/// Every part that a start would read passes its check.
pub(super) async fn check_parts(
    shared: &Shared,
    report: &mut AuditReport,
    mut found: Option<&mut Found<'_>>,
) -> Result<(), AuditError> {
    let parts: Vec<PartPlace> = shared.control().parts.borrow().clone();
    let shard = shared.shard();
    for part in parts {
        let bytes = part.bytes as usize;
        let sectors = u64::from(part.bytes).div_ceil(SECTOR_BYTES);
        let (mut crc, mut good, mut bad) = (None, false, Vec::new());
        for copy in 0..shared.fast.info().copies {
            let read = shard.try_read_sectors(part.sector, sectors, copy).await;
            let is_absent = read.as_ref().is_err_and(|error| error.is_absence());
            let read = read.ok().map(|read| crc32c(&read.bytes()[..bytes]));
            if read == Some(part.crc) {
                good = true;
                if found.is_none() {
                    break;
                }
            } else if !is_absent {
                crc = read.or(crc);
                bad.push(copy);
            }
        }
        report.parts += 1;
        let is_needed = shared.control().parts.borrow().contains(&part);
        if let (true, Some(found)) = (is_needed, &mut found) {
            bad.into_iter().for_each(|copy| {
                found(AuditNews::Bad(BadCopy {
                    tier: Tier::Fast,
                    offset: part.sector * SECTOR_BYTES,
                    bytes: sectors * SECTOR_BYTES,
                    copy,
                }));
            });
        }
        if !good && is_needed {
            return Err(AuditError::PartUnreadable {
                checkpoint: part.checkpoint,
                sector: part.sector,
                expected: part.crc,
                found: crc,
            });
        }
    }
    Ok(())
}
