//! Identities: volumes, tenants, slices, lanes, shards, generations.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// Volume (or snapshot) identity; 64 bits, never reused within a pool.
    VolumeId(u64), "volume"
);
id!(
    /// Tenant: owner of blocks, key of isolation.
    TenantId(u32), "tenant"
);
id!(
    /// Part of the map with one owner: `(leaf + volume) mod slices`.
    SliceId(u16), "slice"
);
id!(
    /// One append point of the fast-tier log.
    LaneId(u16), "lane"
);
id!(
    /// One reactor's part of the engine: its slices and its lane.
    ShardId(u16), "shard"
);
id!(
    /// Counter of a chunk or group, raised before it is reset.
    Generation(u32), "generation"
);

impl Generation {
    /// The next generation; wraps, because only equality is ever asked.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
