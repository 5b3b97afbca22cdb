//! Checks of the stored data at the end of a simulation run.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto::store::{ConsistencyLevel, ReadOptions, Store};
use recto_model::{Cells, Table};
use recto_protocol::views::{Arranged, Intent, KeyCells, Row, Seen, Version, ViewTable, Writer};

use super::handles;
use super::history::History;
use super::records::{ALL, Fields, LEDGERS, Tables};

/// Rows of a view by key: the cells and the version of each row.
type Entries = BTreeMap<Vec<Vec<u8>>, (Cells, Version)>;

/// Stored data to check, and the history of requests with which it must agree.
pub(crate) struct Checked<'a> {
    /// Store whose tables are scanned.
    pub(crate) scanned: &'a dyn Store,
    /// Store from which single records are read.
    pub(crate) store: &'a dyn Store,
    pub(crate) tables: &'a Tables,
    pub(crate) history: &'a History,
}

impl Checked<'_> {
    /// Checks the records, the views, and the responses that clients got. Returns the final records
    /// as text.
    ///
    /// # Errors
    /// Returns an error if a record, a view or a response is wrong.
    pub(crate) async fn views(&self) -> Result<String, String> {
        let Self {
            scanned,
            store,
            tables,
            history,
        } = *self;
        let mut rows: Vec<Row<Cells, KeyCells>> = Vec::new();
        for id in 0..ALL {
            let found = tables
                .read(store, id, Some(ConsistencyLevel::Serial))
                .await
                .unwrap();
            let version = found.row.as_ref().map(|row| row.version);
            if version < history.newest(id) {
                return Err(format!(
                    "record {id} is of {version:?}, and {:?} was known",
                    history.newest(id)
                ));
            }
            let record = found.row.as_ref().and_then(|row| row.record.as_ref());
            if id < LEDGERS {
                let log = record.map(|record| Fields::of(record).log).unwrap_or_default();
                history.check_log(id, &log)?;
            }
            rows.extend(found.row);
        }
        for view in tables.views.views() {
            let mut expected = Entries::new();
            let mut may_be = Entries::new();
            for row in &rows {
                let Some(record) = &row.record else { continue };
                let Some(entry) = tables.views.entry_in(view.number(), record) else {
                    continue;
                };
                let key = entry.key.key.cells().map(<[u8]>::to_vec).collect();
                let of = if row.expires_at.is_none() {
                    &mut expected
                } else {
                    &mut may_be
                };
                of.insert(key, (entry.cells, row.version));
            }
            let mut there = Entries::new();
            for seen in seen(scanned, view).await {
                let key: Vec<Vec<u8>> = seen.key.key.cells().map(<[u8]>::to_vec).collect();
                let entry = (seen.cells, seen.version);
                if may_be.get(&key) != Some(&entry) {
                    there.insert(key, entry);
                }
            }
            if there != expected {
                let name = view.table().name();
                return Err(format!(
                    "{name} has {there:?}\nand should have {expected:?}\nof {rows:?}"
                ));
            }
        }
        handles::check(scanned, tables, &rows).await?;
        history.wrong()?;
        if history.applied() == 0 {
            return Err("nothing was applied".to_owned());
        }
        Ok(format!("{rows:?}\n"))
    }

    /// Checks that neither dead processes nor intents (records of changes in progress) remain,
    /// after the changes of dead processes were resolved twice.
    pub(crate) async fn remains(&self) -> Result<(), String> {
        let writers = scan(self.scanned, &Arc::new(Writer::table())).await;
        let dead = |row: &Cells| Writer::read(row.as_row()).unwrap().1.is_dead;
        let dead = writers.iter().filter(|row| dead(row)).count();
        let intents = scan(self.scanned, &Arc::new(Intent::table())).await.len();
        if dead == 0 && intents == 0 {
            return Ok(());
        }
        Err(format!("{dead} dead processes and {intents} intents remain"))
    }
}

/// Returns all rows of a view.
async fn seen(store: &dyn Store, view: &ViewTable) -> Vec<Seen<KeyCells, Cells>> {
    let rows = scan(store, view.table()).await;
    rows.iter()
        .map(|row| view.seen(row.as_row()).expect("a stamp"))
        .collect()
}

/// Returns all rows of a table.
pub(crate) async fn scan(store: &dyn Store, table: &Arc<Table>) -> Vec<Cells> {
    let snapshot = store.snapshot().unwrap();
    let options = ReadOptions::default();
    let mut rows = Vec::new();
    for range in snapshot.token_ranges(table, 1).await.unwrap() {
        let mut after = None;
        loop {
            let read = snapshot
                .scan(table, &range, after.as_ref(), 1_000, &options)
                .await
                .unwrap();
            rows.extend(read.rows.iter().map(|row| row.iter().collect::<Cells>()));
            after = read.next;
            if after.is_none() {
                break;
            }
        }
    }
    rows
}
