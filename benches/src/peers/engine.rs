//! Peer: redb, the key-value engine of Recto's embedded store. It reads raw rows from a copy of the
//! store's file, which shows the minimum cost of a page.

use std::ops::Bound;
use std::path::Path;

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata, TableDefinition, TableHandle};

use crate::flights::CARRIER;

type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Table of flights in a copy of the embedded store's file, opened in one redb snapshot.
pub(crate) struct Engine {
    rows: Rows,
    _database: Database,
}

impl Engine {
    /// Opens a copy of the embedded store's file. No other process may have the file open.
    pub(crate) fn open(file: &Path, cache_bytes: u64) -> Self {
        let database = Database::builder()
            .set_cache_size(usize::try_from(cache_bytes).unwrap())
            .open(file)
            .unwrap();
        let transaction = database.begin_read().unwrap();
        // Choose the largest table, because the table of flights is always the largest.
        let names: Vec<String> = transaction
            .list_tables()
            .unwrap()
            .map(|table| table.name().to_owned())
            .collect();
        let tables = names.iter().filter_map(|name| {
            transaction
                .open_table(TableDefinition::<&[u8], &[u8]>::new(name))
                .ok()
        });
        let rows = tables.max_by_key(|table| table.len().unwrap()).unwrap();
        Self {
            rows,
            _database: database,
        }
    }

    /// Returns `count` keys of one carrier's rows, to start reads there. The first is `depth` rows
    /// after the carrier's first row, and each is `apart` rows after the previous one.
    pub(crate) fn keys(&self, depth: usize, count: usize, apart: usize) -> Vec<Vec<u8>> {
        // A key begins with the letters of its carrier, so the carrier's first key is the first key
        // from these letters on.
        let rows = self.rows.range::<&[u8]>(CARRIER.as_bytes()..).unwrap();
        let keys = rows.map(|entry| entry.unwrap().0.value().to_vec());
        let keys: Vec<Vec<u8>> = keys.skip(depth).step_by(apart).take(count).collect();
        assert!(
            keys.iter().all(|key| key.starts_with(CARRIER.as_bytes())),
            "keys of the carrier"
        );
        keys
    }

    /// Reads at most `rows` rows after the key `after`, or from the carrier's first row if `after`
    /// is `None`. Returns the number of rows read.
    pub(crate) fn read(&self, after: Option<&[u8]>, rows: u32) -> usize {
        let from = after.map_or(Bound::Included(CARRIER.as_bytes()), Bound::Excluded);
        let mut range = self.rows.range::<&[u8]>((from, Bound::Unbounded)).unwrap();
        let mut seen = 0;
        while seen < rows as usize
            && let Some(entry) = range.next()
        {
            let (key, value) = entry.unwrap();
            std::hint::black_box((key.value(), value.value()));
            seen += 1;
        }
        seen
    }
}
