//! `varve volume`.

use super::Exit;
use super::front::{Front, judge, parse_place, show_findings};
use super::table::Column::{Number, Text};
use super::table::{size, table};
use clap::{Args, Subcommand};
use varve_control::{CreateVolume, Reply, Request, VolumeView, parse_size};

/// What to do with volumes.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Make a volume, thin and empty
    Create(Create),
    /// List the volumes of a pool, or of all
    List(List),
    /// Give a volume another size
    Resize(Resize),
    /// Delete a volume: an empty one, or with all it holds
    Delete(Delete),
}

/// Options of `varve volume create`.
#[derive(Args)]
pub(crate) struct Create {
    /// The volume
    #[arg(value_name = "POOL/NAME", value_parser = parse_place)]
    volume: (String, String),
    /// Its size: a multiple of 4096 bytes; K, M, G, T are powers of 1024, KB, MB, GB, TB of 1000
    #[arg(value_parser = parse_size)]
    size: u64,
    /// Number of the tenant it belongs to
    #[arg(long, default_value_t = 0)]
    tenant: u32,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve volume list`.
#[derive(Args)]
pub(crate) struct List {
    /// The pool; all if left out
    pool: Option<String>,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve volume resize`.
#[derive(Args)]
pub(crate) struct Resize {
    /// The volume
    #[arg(value_name = "POOL/NAME", value_parser = parse_place)]
    volume: (String, String),
    /// Its new size: a multiple of 4096 bytes; K, M, G, T are powers of 1024, KB, MB, GB, TB of 1000
    #[arg(value_parser = parse_size)]
    size: u64,
    /// Also if it becomes smaller: what is behind the new end is lost
    #[arg(long)]
    shrink: bool,
    #[command(flatten)]
    front: Front,
}

/// Options of `varve volume delete`.
#[derive(Args)]
pub(crate) struct Delete {
    /// The volume
    #[arg(value_name = "POOL/NAME", value_parser = parse_place)]
    volume: (String, String),
    /// With all it holds
    #[arg(long)]
    with_data: bool,
    #[command(flatten)]
    front: Front,
}

impl Action {
    /// Does it.
    pub(crate) fn run(&self) -> Exit {
        match self {
            Self::Create(options) => {
                let (pool, volume) = options.volume.clone();
                let request = CreateVolume {
                    pool,
                    volume,
                    bytes: options.size,
                    tenant: options.tenant,
                };
                options.front.run(Request::VolumeCreate(request), show)
            }
            Self::List(options) => {
                let pool = options.pool.clone();
                options.front.run(Request::VolumeList { pool }, show)
            }
            Self::Resize(options) => {
                let (pool, volume) = options.volume.clone();
                let request = Request::VolumeResize {
                    pool,
                    volume,
                    bytes: options.size,
                    shrink: options.shrink,
                };
                options.front.run(request, show)
            }
            Self::Delete(options) => {
                let (pool, volume) = options.volume.clone();
                let request = Request::VolumeDelete {
                    pool,
                    volume,
                    with_data: options.with_data,
                };
                options.front.run(request, show)
            }
        }
    }
}

fn show(reply: &Reply) -> Exit {
    match reply {
        Reply::VolumeList { volumes, findings } => {
            print!("{}", list(volumes));
            show_findings(findings);
            return judge(reply);
        }
        Reply::Volume(volume) => {
            print!("{}", list(std::slice::from_ref(volume)));
            show_findings(&volume.findings);
        }
        Reply::VolumeDone { pool, volume } => println!("volume {pool}/{volume} is deleted"),
        other => unreachable!("no reply to a command for volumes: {other:?}"),
    }
    Exit::Ok
}

fn list(volumes: &[VolumeView]) -> String {
    let row = |volume: &VolumeView| {
        vec![
            format!("{}/{}", volume.pool, volume.volume),
            size(volume.bytes),
            size(volume.used_bytes),
            size(volume.unprotected_bytes),
            volume.tenant.to_string(),
            volume
                .nsid
                .map_or_else(|| "-".to_owned(), |nsid| nsid.to_string()),
            volume.uuid.clone(),
        ]
    };
    let rows: Vec<_> = volumes.iter().map(row).collect();
    let columns = [
        Text("VOLUME"),
        Number("SIZE"),
        Number("USED"),
        Number("UNPROTECTED"),
        Number("TENANT"),
        Number("NSID"),
        Text("UUID"),
    ];
    table(&columns, &rows)
}
