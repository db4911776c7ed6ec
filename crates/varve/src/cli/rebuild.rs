//! `varve check --rebuild`.

use super::Exit;
use super::front::{judge, show_findings};
use super::hint::typed;
use super::table::Column::{Number, Text};
use super::table::{count, size, table};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;
use varve_control::{DrivePath, NamedVolume, RebuildPool, RebuildView, Reply, Request, parse_size};

/// Options of `varve check --rebuild`.
#[derive(Args)]
pub(super) struct Rebuild {
    /// Make the map anew from what the dense drives hold, where the fast drives are gone or cannot be read. What was in
    /// the log alone is lost, and what was freed may be there again
    #[arg(long, requires = "fast")]
    rebuild: bool,
    /// With --rebuild: new fast drives, as many as the pool had, or new sparse files (PATH:SIZE)
    #[arg(long, num_args = 1.., value_name = "PATH", requires = "rebuild")]
    fast: Vec<DrivePath>,
    /// With --rebuild: where the pool's drives are; where they were last if left out
    #[arg(long, num_args = 1.., value_name = "PATH", requires = "rebuild")]
    drives: Vec<PathBuf>,
    /// With --rebuild: name of a volume by its number, and its size if it was larger than what is found; volume-NUMBER if
    /// left out
    #[arg(long, num_args = 1.., value_name = "NUMBER=NAME[:SIZE]", value_parser = parse_volume, requires = "rebuild")]
    volume: Vec<(u64, NamedVolume)>,
    /// With --rebuild: use fast drives although they hold something, which is lost; the pool's own too
    #[arg(long, requires = "rebuild")]
    overwrite: bool,
    /// With --rebuild: even if the pool can be opened; what its log holds is lost
    #[arg(long, requires = "rebuild")]
    force: bool,
    /// With --rebuild: even if another machine used the pool last
    #[arg(long, requires = "rebuild")]
    take_over: bool,
}

impl Rebuild {
    /// What is asked for, if it is.
    pub(super) fn request(&self, pool: &str) -> Option<Request> {
        let volumes: BTreeMap<u64, NamedVolume> = self.volume.iter().cloned().collect();
        self.rebuild.then(|| {
            Request::PoolRebuild(RebuildPool {
                pool: pool.to_owned(),
                fast: self.fast.iter().map(absolute).collect(),
                drives: self.drives.clone(),
                volumes,
                overwrite: self.overwrite,
                force: self.force,
                take_over: self.take_over,
            })
        })
    }
}

/// A daemon has another directory than this command.
fn absolute(drive: &DrivePath) -> DrivePath {
    let path = std::path::absolute(&drive.path);
    DrivePath {
        path: path.unwrap_or_else(|_| drive.path.clone()),
        ..drive.clone()
    }
}

fn parse_volume(text: &str) -> Result<(u64, NamedVolume), String> {
    let wrong = || "write NUMBER=NAME, or NUMBER=NAME:SIZE".to_owned();
    let (number, named) = text.split_once('=').ok_or_else(wrong)?;
    let number = number.parse().map_err(|_| wrong())?;
    let (name, bytes) = match named.split_once(':') {
        Some((name, bytes)) => {
            let bytes = parse_size(bytes).map_err(|error| error.to_string())?;
            (name, Some(bytes))
        }
        None => (named, None),
    };
    let name = name.to_owned();
    Ok((number, NamedVolume { name, bytes }))
}

/// Shows what was made.
pub(super) fn show(reply: &Reply) -> Exit {
    let Reply::PoolRebuild(view) = reply else {
        return Exit::Ok;
    };
    print!("{}", volumes(view));
    println!(
        "{} blocks of {} in {} leaves, read from {}; of {} older versions were passed over",
        view.mapped_blocks,
        count(view.volumes.len() as u64, "volume"),
        view.leaves,
        count(view.stripes, "stripe"),
        count(view.passed_over, "block"),
    );
    println!(
        "{} free, {} emptied into the log for that; P2L read {}",
        count(view.free_groups, "group"),
        view.evacuated_groups,
        count(view.passes, "time"),
    );
    show_losses(view);
    show_findings(&view.findings);
    let next = format!(
        "pool {} has a map again: varve check {} compares it with all drives, varve pool import --pool {} opens it",
        view.pool, view.pool, view.pool
    );
    println!("{}", typed(&next));
    judge(reply)
}

fn volumes(view: &RebuildView) -> String {
    let row = |volume: &varve_control::RebuiltVolume| {
        vec![
            volume.number.to_string(),
            volume.volume.clone(),
            size(volume.mapped_bytes),
            volume.lost_blocks.to_string(),
        ]
    };
    let rows: Vec<_> = view.volumes.iter().map(row).collect();
    if rows.is_empty() {
        return "no volume was found: all that the pool held was in the log\n".to_owned();
    }
    let columns = [
        Number("NUMBER"),
        Text("VOLUME"),
        Number("FOUND"),
        Number("BLOCKS LOST"),
    ];
    table(&columns, &rows)
}

/// What could not be read.
fn show_losses(view: &RebuildView) {
    if view.unreadable_stripes > 0 {
        let groups: Vec<_> = view.unreadable_groups.iter().map(u32::to_string).collect();
        println!(
            "{} of group {} cannot be told: what they held is missing, or what was there before is in its place",
            count(view.unreadable_stripes, "stripe"),
            groups.join(", ")
        );
    }
    if view.gave_way > 0 {
        println!(
            "{} could not be read where it was looked for first, {} of these are lost",
            count(view.gave_way, "block"),
            view.lost_blocks
        );
    }
    for drive in &view.away {
        println!("drive {drive} is away, and lost to the pool: varve drive replace");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_named_by_number() {
        let named = |name: &str, bytes| NamedVolume {
            name: name.to_owned(),
            bytes,
        };
        assert_eq!(parse_volume("7=db"), Ok((7, named("db", None))));
        let sized = parse_volume("7=db:10g");
        assert_eq!(sized, Ok((7, named("db", Some(10 << 30)))));
        for wrong in ["db", "x=db", "=db", "7=db:much"] {
            assert!(parse_volume(wrong).is_err(), "{wrong}");
        }
    }
}
