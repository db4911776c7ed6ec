//! `varve inspect`.

use super::table::Column::{Number, Text};
use super::table::{size, table};
use super::{Exit, complain};
use crate::envelope;
use clap::Args;
use std::io::ErrorKind;
use std::path::PathBuf;
use varve_control::inspect::{ChunkView, InspectView, LabelView, inspect};
use varve_format::layout;

/// Options of `varve inspect`.
#[derive(Args)]
pub(crate) struct Options {
    /// A drive, or a file that is one: its labels, its log, its newest checkpoint
    #[arg(required_unless_present = "layout")]
    path: Option<PathBuf>,
    /// The layout of the fixed structures on media, as Markdown tables; not of leaves of the map and of parts of
    /// checkpoints with their changes and entries. Not with --json
    #[arg(long, conflicts_with = "path")]
    layout: bool,
    /// Write the result as JSON
    #[arg(long, conflicts_with = "layout")]
    json: bool,
}

/// What to do where there is no drive.
const NEXT: &str = "name a drive of a pool: varve drive list shows them";

impl Options {
    /// Prints what was asked for.
    pub(crate) fn run(&self) -> Exit {
        let Some(path) = &self.path else {
            print!("{}", layout::tables());
            return Exit::Ok;
        };
        match inspect(path) {
            Ok(view) => {
                if self.json {
                    print!("{}", envelope::json("Inspect", &view));
                } else {
                    show(&view);
                }
                if view.labels.iter().any(Option::is_some) {
                    Exit::Ok
                } else {
                    let what = format!("{} has no label of a pool", path.display());
                    complain("no-label", &what, NEXT);
                    Exit::NotFound
                }
            }
            Err(error) => {
                let (code, exit) = match error.kind() {
                    ErrorKind::NotFound => ("no-drive", Exit::NotFound),
                    ErrorKind::InvalidInput => ("not-a-drive", Exit::Usage),
                    ErrorKind::PermissionDenied => ("denied", Exit::Refused),
                    _ => ("unreadable", Exit::Failed),
                };
                complain(code, &format!("{}: {error}", path.display()), NEXT);
                exit
            }
        }
    }
}

fn show(view: &InspectView) {
    println!("{}  {}", view.path.display(), size(view.bytes));
    for (name, label) in ["A", "B"].iter().zip(&view.labels) {
        match label {
            Some(label) => show_label(name, label),
            None => println!("label {name}: none that passes its checks"),
        }
    }
    let newest = view.labels.iter().flatten();
    if let Some(label) = newest.max_by_key(|label| (label.generation, label.copy_sequence)) {
        let row = |member: &varve_control::inspect::MemberView| {
            let own = if member.id == label.drive {
                "this one"
            } else {
                ""
            };
            vec![
                member.id.to_string(),
                format!("{}{}", member.role, member.slot),
                member.state.clone(),
                size(member.bytes),
                own.to_owned(),
            ]
        };
        let rows: Vec<_> = label.members.iter().map(row).collect();
        let own = label.members.iter().find(|one| one.id == label.drive);
        if let Some(own) = own.filter(|own| own.bytes > view.bytes) {
            println!(
                "the drive ends {} bytes before what its label says: it was truncated, or is another one's copy",
                own.bytes - view.bytes
            );
        }
        let columns = [
            Number("MEMBER"),
            Text("PLACE"),
            Text("STATE"),
            Number("SIZE"),
            Text(""),
        ];
        print!("{}", table(&columns, &rows));
    }
    if let Some(commit) = &view.checkpoint {
        println!(
            "checkpoint {} of epoch {}: commit at sector {}, {} parts of {} in all, redo from {:?}",
            commit.checkpoint,
            commit.epoch,
            commit.sector,
            commit.parts,
            size(commit.part_bytes),
            commit.redo_sectors
        );
    }
    if view.role.as_deref() == Some("fast") {
        print!("{}", log(&view.log));
        println!("{} chunks without a header of this pool", view.blank_chunks);
    }
}

fn show_label(name: &str, label: &LabelView) {
    println!(
        "label {name}: drive {} of pool {} ({}), generation {:#x}, written {} times, epoch {}, \
         owner {}, heartbeat {}, logical blocks of {} bytes, {}",
        label.drive,
        label.pool,
        label.id,
        label.generation,
        label.copy_sequence,
        label.epoch,
        label.owner,
        label.heartbeat,
        label.lba_bytes,
        match (label.is_unfinished, label.is_clean) {
            (true, _) => "being created",
            (false, true) => "clean",
            (false, false) => "not clean",
        }
    );
}

fn log(chunks: &[ChunkView]) -> String {
    let row = |chunk: &ChunkView| {
        let numbers = [
            u64::from(chunk.chunk),
            u64::from(chunk.epoch),
            u64::from(chunk.lane),
            chunk.sequence,
            chunk.first_lsn,
            chunk.end_lsn,
            chunk.batches,
            chunk.used_bytes,
            chunk.puts,
            chunk.moves,
            chunk.discards,
            chunk.leaves,
            chunk.checkpoints,
            chunk.catalogue,
        ];
        numbers.iter().map(u64::to_string).collect()
    };
    let rows: Vec<Vec<String>> = chunks.iter().map(row).collect();
    let columns = [
        "CHUNK",
        "EPOCH",
        "LANE",
        "SEQUENCE",
        "LSN",
        "TO",
        "BATCHES",
        "BYTES",
        "PUT",
        "MOVE",
        "DISCARD",
        "LEAF",
        "CHECKPOINT",
        "CATALOGUE",
    ];
    table(&columns.map(Number), &rows)
}
