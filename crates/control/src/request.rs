//! What front ends ask for and get: the same over a socket and in one process.

use crate::check::CheckView;
use crate::create::CreatePool;
use crate::error::ControlError;
use crate::failure::Failure;
use crate::finding::Finding;
use crate::jobs::JobView;
use crate::open::ImportPool;
use crate::pools::Pools;
use crate::rebuild::{RebuildPool, RebuildView};
use crate::replace::ReplaceDrive;
use crate::room;
use crate::scrub::ScrubPool;
use crate::view::{DriveView, PlanView, PoolView, VolumeView};
use crate::volumes::CreateVolume;
use serde::{Deserialize, Serialize};
use varve_io::Flow;
use varve_units::BLOCK_BYTES;

/// Version of requests and replies; raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// One thing to do or to tell. What a field is not known for is refused: it may have been to keep something from harm.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub enum Request {
    /// All pools that are known.
    PoolList,
    /// One pool.
    PoolStatus {
        /// Its name.
        pool: String,
    },
    /// Make a pool.
    PoolCreate(CreatePool),
    /// Import a pool.
    PoolImport(ImportPool),
    /// Release a pool.
    PoolExport {
        /// Its name.
        pool: String,
        /// Forget it, as its drives are, if it cannot be opened.
        #[serde(default)]
        forget: bool,
        /// Also while hosts are connected, which lose its volumes.
        #[serde(default)]
        cut_off: bool,
    },
    /// Destroy a pool.
    PoolDestroy {
        /// Its name.
        pool: String,
        /// With all volumes on it.
        with_volumes: bool,
        /// Also while hosts are connected, which lose its volumes.
        #[serde(default)]
        cut_off: bool,
    },
    /// Check a pool that no daemon uses.
    PoolCheck {
        /// Its name.
        pool: String,
    },
    /// Scrub a pool, in use or not.
    PoolScrub(ScrubPool),
    /// End the scrub of a pool.
    PoolScrubStop {
        /// Its name.
        pool: String,
    },
    /// Make the map of a pool anew, which no daemon uses.
    PoolRebuild(RebuildPool),
    /// Volumes of a pool, or of all.
    VolumeList {
        /// Its name.
        pool: Option<String>,
    },
    /// Make a volume.
    VolumeCreate(CreateVolume),
    /// Change a volume's size.
    VolumeResize {
        /// Its pool.
        pool: String,
        /// Its name.
        volume: String,
        /// Its new size in bytes.
        bytes: u64,
        /// Also if that is less.
        shrink: bool,
    },
    /// Delete a volume.
    VolumeDelete {
        /// Its pool.
        pool: String,
        /// Its name.
        volume: String,
        /// With all it holds.
        #[serde(default)]
        with_data: bool,
    },
    /// Drives of a pool, or of all.
    DriveList {
        /// Its name.
        pool: Option<String>,
    },
    /// Replace a drive.
    DriveReplace(ReplaceDrive),
    /// A job, once it has ended or come on beyond so many bytes.
    JobWait {
        /// Its number.
        job: u64,
        /// Bytes that are known to be done.
        from: u64,
    },
    /// All jobs.
    JobList,
}

impl Request {
    /// True if it changes nothing, and is answered at once.
    #[must_use]
    pub const fn is_question(&self) -> bool {
        matches!(
            self,
            Self::PoolList
                | Self::PoolStatus { .. }
                | Self::VolumeList { .. }
                | Self::DriveList { .. }
                | Self::JobList
        )
    }

    /// True if it may be the first that is done with a state directory: all else is about what is known there.
    #[must_use]
    pub const fn may_be_first(&self) -> bool {
        match self {
            Self::PoolCreate(_) | Self::PoolImport(_) => true,
            Self::PoolRebuild(wanted) => !wanted.drives.is_empty(),
            _ => false,
        }
    }

    /// The pool that must be open for it. What opens one itself, as far as it needs to, names none here.
    #[must_use]
    pub fn pool(&self) -> Option<&str> {
        match self {
            Self::PoolCheck { pool }
            | Self::PoolScrubStop { pool }
            | Self::VolumeResize { pool, .. }
            | Self::VolumeDelete { pool, .. }
            | Self::VolumeList { pool: Some(pool) } => Some(pool),
            Self::VolumeCreate(new) => Some(&new.pool),
            Self::PoolScrub(wanted) => Some(&wanted.pool),
            _ => None,
        }
    }
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Reply {
    /// It was done, to this pool.
    PoolDone {
        /// Its name.
        pool: String,
        /// What of it was not done, and why.
        #[serde(default)]
        findings: Vec<Finding>,
    },
    /// Pools.
    PoolList {
        /// By name.
        pools: Vec<PoolView>,
    },
    /// A pool.
    PoolStatus(PoolView),
    /// What was made or would be.
    PoolPlan(PlanView),
    /// What a check found.
    PoolCheck(CheckView),
    /// What a rebuild of a map found and did.
    PoolRebuild(RebuildView),
    /// Volumes.
    VolumeList {
        /// By pool and number.
        volumes: Vec<VolumeView>,
        /// Pools that are left out, and why.
        #[serde(default)]
        findings: Vec<Finding>,
    },
    /// A volume as it is now.
    Volume(VolumeView),
    /// It was done, to this volume.
    VolumeDone {
        /// Its pool.
        pool: String,
        /// Its name.
        volume: String,
    },
    /// Drives.
    DriveList {
        /// By pool and place.
        drives: Vec<DriveView>,
    },
    /// A job.
    Job(JobView),
    /// Jobs.
    JobList {
        /// By number.
        jobs: Vec<JobView>,
    },
}

impl Pools {
    /// Does what is asked for; pools that it needs must be open.
    ///
    /// # Errors
    /// What failed, why, and what to do next.
    pub fn answer(&self, request: Request) -> Flow<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            match self.reply(request).await {
                Ok(reply) => Ok(reply),
                Err(error) => Err(self.with_users(error).await.into()),
            }
        })
    }

    async fn reply(&self, request: Request) -> Result<Reply, ControlError> {
        Ok(match request {
            Request::PoolList => Reply::PoolList {
                pools: self.list().await?,
            },
            Request::PoolStatus { pool } => Reply::PoolStatus(self.status(&pool).await?),
            Request::PoolCreate(new) => Reply::PoolPlan(self.create_pool(&new).await?),
            Request::PoolImport(wanted) => {
                let pool = self.import(&wanted).await?;
                Reply::PoolStatus(self.status(&pool).await?)
            }
            Request::PoolExport {
                pool,
                forget,
                cut_off,
            } => {
                if !cut_off {
                    self.spare_hosts(&pool)?;
                }
                let findings = self.export(&pool, forget).await?.into_iter().collect();
                Reply::PoolDone { pool, findings }
            }
            Request::PoolDestroy {
                pool,
                with_volumes,
                cut_off,
            } => {
                if with_volumes && !cut_off {
                    self.spare_hosts(&pool)?;
                }
                self.destroy(&pool, with_volumes).await?;
                let findings = Vec::new();
                Reply::PoolDone { pool, findings }
            }
            Request::PoolCheck { pool } => Reply::PoolCheck(self.check_pool(&pool).await?),
            Request::PoolScrub(wanted) => Reply::Job(self.scrub_pool(&wanted)?),
            Request::PoolScrubStop { pool } => {
                let findings = self.stop_scrub(&pool).await?;
                Reply::PoolDone { pool, findings }
            }
            Request::PoolRebuild(wanted) => Reply::Job(self.rebuild_pool(&wanted).await?),
            Request::DriveList { pool } => Reply::DriveList {
                drives: self.list_drives(pool.as_deref()).await?,
            },
            Request::DriveReplace(wanted) => Reply::Job(self.replace_drive(&wanted).await?),
            Request::JobWait { job, from } => Reply::Job(self.wait_job(job, from).await?),
            Request::JobList => Reply::JobList {
                jobs: self.all_jobs(),
            },
            request => self.reply_volume(request).await?,
        })
    }

    async fn reply_volume(&self, request: Request) -> Result<Reply, ControlError> {
        match request {
            Request::VolumeList { pool } => Ok(Reply::VolumeList {
                volumes: self.list_volumes(pool.as_deref()).await?,
                findings: match pool {
                    None => self.left_out()?,
                    Some(_) => Vec::new(),
                },
            }),
            Request::VolumeCreate(new) => {
                self.create_volume(&new).await?;
                self.volume_view(&new.pool, &new.volume).await
            }
            Request::VolumeResize {
                pool,
                volume,
                bytes,
                shrink,
            } => {
                self.resize_volume(&pool, &volume, bytes, shrink).await?;
                self.volume_view(&pool, &volume).await
            }
            Request::VolumeDelete {
                pool,
                volume,
                with_data,
            } => {
                self.delete_volume(&pool, &volume, with_data).await?;
                Ok(Reply::VolumeDone { pool, volume })
            }
            other => unreachable!("{other:?} is answered by `reply`"),
        }
    }

    async fn volume_view(&self, pool: &str, volume: &str) -> Result<Reply, ControlError> {
        let views = self.list_volumes(Some(pool)).await?;
        let promised = views
            .iter()
            .map(|view| view.bytes)
            .fold(0, u64::saturating_add);
        let room = self.running(pool)?.pool.engine().reserve().capacity_blocks * BLOCK_BYTES;
        let mut named = views.into_iter().filter(|view| view.volume == volume);
        let mut view = named.next().ok_or_else(|| ControlError::NoVolume {
            pool: pool.to_owned(),
            volume: volume.to_owned(),
        })?;
        view.findings.extend(room::overcommit(pool, promised, room));
        view.findings.extend(self.unserved(&view));
        Ok(Reply::Volume(view))
    }
}
