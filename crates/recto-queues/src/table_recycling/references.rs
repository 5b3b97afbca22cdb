//! Live segments of all shards, by the body table that they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use recto_protocol::queues::{Address, BodyTable, Live, Registry, Segment};

use crate::error::Result;
use crate::shard::ShardCache;

/// Maximum number of shards whose heads are read or changed concurrently.
pub(crate) const SHARDS_AT_ONCE: usize = 16;

/// Live segments of all shards, by the body table that has their bodies.
#[derive(Default)]
pub(crate) struct TableReferences(BTreeMap<BodyTable, Vec<(Address, Segment, Live)>>);

/// Returns the addresses of all shards that ever existed, including shards of deleted queues.
pub(crate) fn addresses(registry: &Registry) -> Vec<Address> {
    let places = registry.places();
    let shards = places.flat_map(|(place, row)| row.shards().map(move |shard| Address { place, shard }));
    shards.collect()
}

impl TableReferences {
    /// Reads the heads (shard manifests) of all shards, and collects their live segments. The
    /// caller must have read `registry` before.
    pub(crate) async fn read(shards: &Arc<ShardCache>, registry: &Registry) -> Result<Self> {
        let heads = stream::iter(addresses(registry)).map(|address| async move {
            let head = shards.shard_at(address).head.read().await?;
            Ok::<_, crate::QueueError>((address, head))
        });
        let mut heads = heads.buffer_unordered(SHARDS_AT_ONCE);
        let mut references: BTreeMap<_, Vec<_>> = BTreeMap::new();
        while let Some((address, head)) = heads.try_next().await? {
            for (segment, live) in head.live() {
                let here = references.entry(live.table).or_default();
                here.push((address, *segment, *live));
            }
        }
        Ok(Self(references))
    }

    /// Returns the number of body tables to which live segments refer.
    pub(crate) fn tables(&self) -> usize {
        self.0.len()
    }

    /// Returns the live segments of all body tables, each with the address of its shard.
    pub(crate) fn all(&self) -> BTreeSet<(Address, Segment)> {
        let all = self.0.values().flatten();
        all.map(|(address, segment, _)| (*address, *segment)).collect()
    }

    /// Returns the live segments whose bodies are in `table`.
    pub(crate) fn segments_in(&self, table: BodyTable) -> &[(Address, Segment, Live)] {
        self.0.get(&table).map_or(&[], Vec::as_slice)
    }
}
