//! Which stream a tenant's blocks go to, and which placement handle of the dense tier that writes under.
//!
//! A group is written under one handle from its first stripe to its last, and is as long as a reclaim
//! unit: as long as no two groups are open under a handle, a unit of the drive holds one group, and is
//! erased when that is deallocated.
//!
//! Under one handle a drive mixes what is written at the same time: its units hold parts of as many groups
//! as there are streams, which do not die together, and it moves what is left of them. That costs more than
//! tenants' streams save. So tenants have streams of their own as far as each of their writers can have a
//! handle of its own, and otherwise share them: on drives without placement there are two, and they share
//! their groups as well (`joint`).
//!
//! It all follows from the drives, so a start finds the same handles for the groups it goes on with, and
//! nothing about it is on the media. Groups of streams that there are no more go to those that there are.

use crate::placement::{StreamId, Writer};
use crate::shared::Shared;
use varve_io::Handle;
use varve_units::TenantId;

/// The handle of a stream where so many tenants have streams of their own, on a drive with `handles` of them:
/// one for each tenant's compaction, then one for each tenant's garbage collection.
fn handle_of(stream: StreamId, tenant_streams: u32, handles: u8) -> Handle {
    let number = match stream.writer {
        Writer::Compaction => stream.tenant.0,
        Writer::GarbageCollection => tenant_streams + stream.tenant.0,
    };
    Handle(number.min(u32::from(handles) - 1) as u8)
}

impl Shared {
    /// The stream that a tenant's blocks go to.
    pub(crate) fn stream_of(&self, tenant: TenantId) -> TenantId {
        TenantId(tenant.0 % self.tenant_streams)
    }

    /// The placement handle of a group that a stream opens now.
    pub(crate) fn handle_of(&self, stream: StreamId) -> Handle {
        let dense = self.dense.as_ref().expect("streams write to a dense tier");
        handle_of(stream, self.tenant_streams, dense.info().handles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Writer::{Compaction, GarbageCollection};
    use alloc::collections::BTreeSet;

    #[test]
    fn streams_share_no_handle() {
        for handles in 2..=u8::MAX {
            for streams in 1..=u32::from(handles) / 2 {
                let of = |writer| {
                    let tenants = (0..streams).map(TenantId);
                    tenants
                        .map(move |tenant| handle_of(StreamId { tenant, writer }, streams, handles))
                };
                let all: BTreeSet<_> = of(Compaction).chain(of(GarbageCollection)).collect();
                assert_eq!(all.len() as u32, 2 * streams);
                assert!(all.iter().all(|handle| handle.0 < handles));
            }
        }
    }

    #[test]
    fn without_placement_all_have_the_one_handle() {
        for writer in [Compaction, GarbageCollection] {
            let tenant = TenantId(0);
            assert_eq!(handle_of(StreamId { tenant, writer }, 1, 1), Handle(0));
        }
    }
}
