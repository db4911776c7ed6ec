//! Which placement handle of the dense tier a stream writes under.
//!
//! A group is written under one handle from its first stripe to its last, and is as long as a reclaim
//! unit: as long as no two groups are open under a handle, a unit of the drive holds one group, and is
//! erased when that is deallocated. With fewer handles than streams some share: garbage collection
//! first, whose blocks are cold whoever owns them.
//!
//! A handle follows from the tenants that have volumes, not from what is open: a start finds the same
//! ones for the groups it goes on with, and nothing about it is on the media.

use crate::placement::{StreamId, Writer};
use crate::shared::Shared;
use alloc::collections::BTreeSet;
use varve_io::Handle;
use varve_units::TenantId;

/// The handle of a stream among those of `tenants`, on a drive with `handles` of them: one for each
/// tenant's compaction, then one for each tenant's garbage collection; the last is for all that remain.
fn handle_of(stream: StreamId, tenants: &BTreeSet<TenantId>, handles: u8) -> Handle {
    let last = usize::from(handles) - 1;
    let rank = tenants.range(..stream.tenant).count();
    let number = match stream.writer {
        _ if stream == StreamId::LAST_RESORT => last,
        Writer::Compaction if last > 0 => rank % last,
        Writer::Compaction => 0,
        Writer::GarbageCollection => (tenants.len() + rank).min(last),
    };
    Handle(number as u8)
}

impl Shared {
    /// The placement handle of a group that a stream opens now.
    pub(crate) fn handle_of(&self, stream: StreamId) -> Handle {
        let dense = self.dense.as_ref().expect("streams write to a dense tier");
        let volumes = self.volumes.borrow();
        let reserve = &self.config.reserve;
        let tenants = volumes.tenants().map(|tenant| reserve.stream_of(tenant));
        handle_of(stream, &tenants.collect(), dense.info().handles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn of(tenants: u32, handles: u8) -> (Vec<u8>, Vec<u8>) {
        let all: BTreeSet<_> = (1..=tenants).map(|tenant| TenantId(tenant * 3)).collect();
        let by = |writer| {
            let stream = |tenant: &TenantId| StreamId {
                tenant: *tenant,
                writer,
            };
            all.iter()
                .map(|tenant| handle_of(stream(tenant), &all, handles).0)
                .collect()
        };
        (by(Writer::Compaction), by(Writer::GarbageCollection))
    }

    #[test]
    fn streams_share_no_handle_while_there_are_enough() {
        assert_eq!(of(1, 8), (vec![0], vec![1]));
        assert_eq!(of(4, 8), (vec![0, 1, 2, 3], vec![4, 5, 6, 7]));
        assert_eq!(of(2, 128), (vec![0, 1], vec![2, 3]));
    }

    #[test]
    fn with_fewer_handles_garbage_collection_shares_first() {
        assert_eq!(of(6, 8), (vec![0, 1, 2, 3, 4, 5], vec![6, 7, 7, 7, 7, 7]));
        assert_eq!(of(3, 2), (vec![0, 0, 0], vec![1, 1, 1]));
        assert_eq!(of(3, 1), (vec![0, 0, 0], vec![0, 0, 0]));
        let (compaction, collection) = of(9, 8);
        assert_eq!(compaction, [0, 1, 2, 3, 4, 5, 6, 0, 1]);
        assert!(collection.iter().all(|handle| *handle == 7));
    }

    #[test]
    fn the_last_resort_has_the_last() {
        let tenants: BTreeSet<_> = [TenantId(0), TenantId(1)].into();
        assert_eq!(handle_of(StreamId::LAST_RESORT, &tenants, 8), Handle(7));
        assert_eq!(handle_of(StreamId::LAST_RESORT, &tenants, 1), Handle(0));
    }
}
