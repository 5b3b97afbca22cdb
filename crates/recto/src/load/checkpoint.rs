//! Progress of a load, kept in the store into which it loads.
//!
//! Table `recto_loads` has a row per load. The identity of a load consists of the content of the file, the collections
//! with their sort orders, and the options that affect the stored records. So an edited file is another load, and a
//! renamed file is not. The row contains the names of the file and of the collections for users, and the state as JSON
//! with a version. Old loads are not removed, because a row is small.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use recto_model::table::{Column, ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Table, Type};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, PointRead, RowsMet, Stamp, Store, StoreErrorKind,
    WriteOptions,
};
use serde_json::{Map, Value as Json, json};

use super::source::Format;
use super::write;
use recto_api::parameters::to_pairs;

use crate::catalog::change::{TableChange, change_table};
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{LoadRequest, LoadedCollection, LoadedView};
use crate::shared::Shared;

/// Name of the table with the state of each load.
pub(super) const TABLE: &str = "recto_loads";

/// Version of the JSON format in which the state of a load is stored.
const STATE_VERSION: u64 = 3;

/// Version of the rules that convert cells of CSV to values. Under other rules, the same file may
/// yield other records, so its load gets another identity.
const CSV_RULES: u32 = 2;

/// Maximum number of reasons for rejections that are counted separately for a collection.
const MAX_COUNTED_REASONS: usize = 1_000;

/// Name of the entry that counts rejections for all further reasons, beyond the maximum number of
/// reasons.
const OTHER_REASONS: &str = "other reasons";

/// Maximum number of reasons for rejections that a report lists for a collection.
const MAX_REPORTED_REASONS: usize = 10;

/// Counts of the loaded rows of one collection, by result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) stored: u64,
    pub(super) replaced: u64,
    pub(super) repeated: u64,
    pub(super) rejected: u64,
    reasons: BTreeMap<String, u64>,
    /// For each view, the number of rows that it contains and the number of rows that it leaves
    /// out, among the rows that were not rejected.
    views: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.stored += other.stored;
        self.replaced += other.replaced;
        self.repeated += other.repeated;
        for (name, (entries, left_out)) in &other.views {
            let view = self.views.entry(name.clone()).or_default();
            view.0 += entries;
            view.1 += left_out;
        }
    }

    /// Counts a row for a view: the view has an entry of the row, or leaves the row out.
    pub(super) fn count_in_view(&mut self, name: &str, has_entry: bool) {
        if !self.views.contains_key(name) {
            self.views.insert(name.to_owned(), (0, 0));
        }
        if let Some((entries, left_out)) = self.views.get_mut(name) {
            *(if has_entry { entries } else { left_out }) += 1;
        }
    }

    /// Returns the number of rows that the collection accepted.
    pub(super) fn taken(&self) -> u64 {
        self.stored + self.replaced + self.repeated
    }

    pub(super) fn reject(&mut self, class: &str) {
        self.rejected += 1;
        let class = if self.reasons.len() < MAX_COUNTED_REASONS || self.reasons.contains_key(class) {
            class
        } else {
            OTHER_REASONS
        };
        match self.reasons.get_mut(class) {
            Some(count) => *count += 1,
            None => {
                self.reasons.insert(class.to_owned(), 1);
            }
        }
    }

    pub(super) fn report(&self, name: &str) -> LoadedCollection {
        let mut reasons: Vec<(String, u64)> = self
            .reasons
            .iter()
            .map(|(reason, count)| (reason.clone(), *count))
            .collect();
        reasons.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        reasons.truncate(MAX_REPORTED_REASONS);
        let views = self.views.iter().map(|(name, &(entries, left_out))| LoadedView {
            name: name.clone(),
            entries,
            left_out,
        });
        LoadedCollection {
            name: name.to_owned(),
            rows_stored: self.stored,
            rows_replaced: self.replaced,
            rows_repeated: self.repeated,
            rows_rejected: self.rejected,
            reasons,
            views: views.collect(),
        }
    }
}

/// Progress of a load, which is stored so that another run can continue the load. All counted rows
/// are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Write timestamp of the first row of the file. Each further row adds one microsecond.
    pub(super) stamp: Stamp,
    /// Number of rows of the file that are processed: stored or rejected.
    pub(super) rows: u64,
    /// Size in bytes of the part of the reject file that belongs to the processed rows.
    pub(super) reject_bytes: u64,
    pub(super) finished: bool,
    /// Timestamp of the last write of this state to the store. The timestamp of the next write is
    /// greater, even if the clock was set back.
    written: Stamp,
    /// Tables that store the rows of each collection, in the order of the request.
    tables: Vec<Vec<String>>,
    /// Counts of each collection, in the order of the request.
    pub(super) tallies: Vec<Tally>,
}

/// Returns the tables that store the rows of each collection: the base table, and the tables of the views that are
/// written.
pub(super) fn tables_of(collections: &[Arc<CollectionCore>]) -> Vec<Vec<String>> {
    let tables = |core: &Arc<CollectionCore>| {
        let views = core.viewed.iter().flat_map(|viewed| viewed.views.views());
        let views = views.map(recto_protocol::views::ViewTable::table);
        let tables = std::iter::once(&core.written).chain(views);
        tables.map(|table| table.name().to_owned()).collect()
    };
    collections.iter().map(tables).collect()
}

impl State {
    pub(super) fn new(stamp: Stamp, tables: Vec<Vec<String>>) -> Self {
        Self {
            stamp,
            rows: 0,
            reject_bytes: 0,
            finished: false,
            written: stamp,
            tallies: vec![Tally::default(); tables.len()],
            tables,
        }
    }

    /// Returns the state with which the same load starts again from the first row.
    pub(super) fn anew(&self, stamp: Stamp, tables: Vec<Vec<String>>) -> Self {
        Self {
            written: self.written,
            ..Self::new(stamp, tables)
        }
    }

    /// Returns whether all of the given tables contain the processed rows. The result is false if a
    /// view was added since the state was written.
    pub(super) fn is_in(&self, tables: &[Vec<String>]) -> bool {
        let mut both = tables.iter().zip(&self.tables);
        both.all(|(now, then)| now.iter().all(|table| then.contains(table)))
    }

    /// Returns a write timestamp that is greater than the timestamps of all processed rows.
    pub(super) fn next_stamp(&self) -> Stamp {
        Stamp(self.stamp.0.saturating_add_unsigned(self.rows))
    }

    fn to_json(&self, names: &[String]) -> String {
        let collections: Map<String, Json> = names
            .iter()
            .zip(self.tallies.iter().zip(&self.tables))
            .map(|(name, (tally, tables))| {
                let views = tally.views.iter();
                let views = views.map(|(name, counted)| (name.clone(), json!(counted)));
                let tally = json!({
                    "tables": tables,
                    "stored": tally.stored,
                    "replaced": tally.replaced,
                    "repeated": tally.repeated,
                    "rejected": tally.rejected,
                    "reasons": tally.reasons,
                    "views": views.collect::<Map<_, _>>(),
                });
                (name.clone(), tally)
            })
            .collect();
        json!({
            "version": STATE_VERSION,
            "stamp": self.stamp.0,
            "rows": self.rows,
            "reject_bytes": self.reject_bytes,
            "finished": self.finished,
            "written": self.written.0,
            "collections": collections,
        })
        .to_string()
    }

    fn from_json(text: &str, names: &[String]) -> Option<Self> {
        let json: Json = serde_json::from_str(text).ok()?;
        let tables = |name: &String| match json.get("collections")?.get(name)?.get("tables") {
            // Up to version 2, a load wrote only the base table, which has the
            // name of the collection.
            None => Some(vec![name.clone()]),
            Some(tables) => {
                let names = tables.as_array()?.iter();
                names.map(|name| Some(name.as_str()?.to_owned())).collect()
            }
        };
        let tally = |name: &String| {
            let json = json.get("collections")?.get(name)?;
            let reasons = json.get("reasons")?.as_object()?.iter();
            let views = json.get("views").and_then(Json::as_object);
            // Version 1 did not count replaced and repeated rows, so read these counts as 0.
            let met = |name| json.get(name).and_then(Json::as_u64).unwrap_or(0);
            Some(Tally {
                stored: json.get("stored")?.as_u64()?,
                replaced: met("replaced"),
                repeated: met("repeated"),
                rejected: json.get("rejected")?.as_u64()?,
                reasons: reasons
                    .map(|(reason, count)| Some((reason.clone(), count.as_u64()?)))
                    .collect::<Option<_>>()?,
                views: views
                    .into_iter()
                    .flatten()
                    .map(|(name, counted)| {
                        Some((name.clone(), serde_json::from_value(counted.clone()).ok()?))
                    })
                    .collect::<Option<_>>()?,
            })
        };
        Some(Self {
            stamp: Stamp(json.get("stamp")?.as_i64()?),
            rows: json.get("rows")?.as_u64()?,
            reject_bytes: json.get("reject_bytes")?.as_u64()?,
            finished: json.get("finished")?.as_bool()?,
            written: Stamp(json.get("written")?.as_i64()?),
            tables: names.iter().map(tables).collect::<Option<_>>()?,
            tallies: names.iter().map(tally).collect::<Option<_>>()?,
        })
    }

    fn version(text: &str) -> Option<u64> {
        serde_json::from_str::<Json>(text).ok()?.get("version")?.as_u64()
    }
}

/// Access to the stored state of one load.
pub(super) struct Checkpoint {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    id: String,
    file: String,
    names: Vec<String>,
    shared: Arc<Shared>,
}

impl Checkpoint {
    /// Creates the access to the state of a load. The content of the file, the collections and the
    /// options identify the load.
    pub(super) fn new(
        collections: &[Arc<CollectionCore>],
        request: &LoadRequest,
        path: &Path,
        format: Format,
        content: &blake3::Hash,
    ) -> Self {
        let shared = &collections[0].shared;
        Self {
            store: Arc::clone(&shared.store),
            table: Arc::new(table()),
            id: load_id(collections, request, format, content),
            file: path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            names: collections
                .iter()
                .map(|collection| collection.definition.name.clone())
                .collect(),
            shared: Arc::clone(shared),
        }
    }

    /// Creates the table with the states of loads, if it does not exist.
    pub(super) async fn prepare(&self) -> Result<()> {
        let make = TableChange::Make(Table::clone(&self.table));
        change_table(&self.store, &self.shared.environment, &make).await
    }

    /// Reads the stored state of this load; `None` if no earlier run began the load.
    pub(super) async fn read(&self) -> Result<Option<State>> {
        let read = PointRead {
            table: Arc::clone(&self.table),
            partition: self.partition(),
            clustering: Cells::new(),
        };
        let snapshot = self.store.snapshot()?;
        let found = match snapshot.get(&read, &self.shared.read_options()).await {
            Ok(found) => found,
            Err(error) if error.kind() == StoreErrorKind::Table => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(row) = found.rows.iter().next() else {
            return Ok(None);
        };
        let column = self
            .table
            .column_index("state")
            .expect("the table of loads has a state");
        let Some(text) = row.get(column).and_then(|cell| std::str::from_utf8(cell).ok()) else {
            return Ok(None);
        };
        if State::version(text).is_some_and(|version| version > STATE_VERSION) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("a newer release wrote the checkpoint of loading {}", self.file),
            )
            .with_hint("load the file with that release"));
        }
        State::from_json(text, &self.names).map(Some).ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("the checkpoint of loading {} is damaged", self.file),
            )
            .with_hint("run a check of the store, which finds every damaged row")
        })
    }

    /// Writes the state durably. This write also makes the rows durable that the load wrote relaxed
    /// (acknowledged before they were on disk).
    pub(super) async fn write(&self, state: &mut State) -> Result<()> {
        state.written = Stamp(self.shared.stamps.next().0.max(state.written.0.saturating_add(1)));
        let stamp = state.written;
        let text = state.to_json(&self.names);
        let mut cells = Cells::new();
        cells.push(Some(self.names.join(", ").as_bytes()));
        cells.push(Some(self.file.as_bytes()));
        cells.push(Some(text.as_bytes()));
        let mutation = Mutation {
            operation: Operation::Put {
                clustering: Cells::new(),
                cells,
                replace: true,
            },
            stamp: Some(stamp),
            ttl_seconds: None,
        };
        let write = vec![PartitionWrite {
            table: Arc::clone(&self.table),
            partition: self.partition(),
            mutations: vec![mutation],
        }];
        let options = self.shared.load_options(write::WRITE_TIMEOUT, false);
        let ask = || self.send(&write, options).boxed();
        let outcome = write::until_settled(&self.shared, || Ok(()), ask).await?;
        match outcome {
            write::Settled::Done(_) => Ok(()),
            write::Settled::Refused(error) => Err(error.into()),
        }
    }

    async fn send(&self, write: &[PartitionWrite], options: WriteOptions) -> write::RequestResult<RowsMet> {
        let sent = self.store.write_many(write.to_vec(), Atomicity::Each, options);
        Ok(sent.await.map(write::Answer::from))
    }

    fn partition(&self) -> Cells {
        std::iter::once(Some(self.id.as_bytes())).collect()
    }
}

fn table() -> Table {
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        ty: Type::Text,
        kind,
    };
    let regular = ColumnKind::Regular(WriteKind::Plain);
    let columns = vec![
        column("load_id", ColumnKind::Partition),
        column("collections", regular),
        column("file", regular),
        column("state", regular),
    ];
    Table::new(TABLE, columns, TableOptions::default()).expect("the table of loads has a key of text")
}

/// Returns the identity of a load as hexadecimal text: a hash of the file and of the options that
/// affect the stored records.
fn load_id(
    collections: &[Arc<CollectionCore>],
    request: &LoadRequest,
    format: Format,
    content: &blake3::Hash,
) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("recto 2026 identity of a load");
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(content.as_bytes());
    match format {
        // Add an empty value for NDJSON, so that its loads keep the identity that earlier
        // releases gave them.
        Format::Ndjson => add(&[]),
        Format::Csv => add(&CSV_RULES.to_le_bytes()),
    }
    add(&[u8::from(request.ignore_unknown)]);
    for (name, value) in to_pairs(&request.csv) {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    let mut sort_orders: Vec<String> = collections
        .iter()
        .map(|collection| collection.definition.base().canonical())
        .collect();
    sort_orders.sort_unstable();
    for sort_order in sort_orders {
        add(sort_order.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_states_of_this_and_earlier_releases() {
        let names = ["a".to_owned(), "b".to_owned()];
        let tables = |view: &[&str]| {
            vec![
                vec!["a".to_owned()],
                view.iter().map(|&name| name.into()).collect(),
            ]
        };
        let with_view = tables(&["b", "b_by_x_3"]);
        let mut state = State::new(Stamp(1_700_000_000_000_000), with_view.clone());
        state.rows = 7;
        state.reject_bytes = 90;
        state.tallies[0].stored = 7;
        state.tallies[0].replaced = 2;
        state.tallies[0].repeated = 3;
        state.tallies[1].stored = 6;
        state.tallies[1].reject("x: expected an int");
        for has_entry in [true, false, true] {
            state.tallies[1].count_in_view("by_x", has_entry);
        }
        let text = state.to_json(&names);
        assert_eq!(State::from_json(&text, &names).unwrap(), state);
        assert_eq!(text, include_str!("golden/load-state-v3.json").trim_end());
        // Earlier releases wrote these files, and every later release must read them.
        state.tables = tables(&["b"]);
        state.tallies[1].views.clear();
        let golden = include_str!("golden/load-state-v2.json");
        assert_eq!(State::from_json(golden, &names).unwrap(), state);
        state.tallies[0].replaced = 0;
        state.tallies[0].repeated = 0;
        let golden = include_str!("golden/load-state-v1.json");
        let read = State::from_json(golden, &names).unwrap();
        assert_eq!(read, state);
        assert!(read.is_in(&tables(&["b"])) && !read.is_in(&with_view));
        assert!(read.anew(Stamp(8), with_view.clone()).is_in(&tables(&["b"])));
    }

    #[test]
    fn reasons_are_counted_within_a_limit() {
        let mut tally = Tally::default();
        for number in 0..2 * MAX_COUNTED_REASONS {
            tally.reject(&number.to_string());
        }
        tally.reject("0");
        let report = tally.report("a");
        assert_eq!(report.rows_rejected, 2_001);
        assert_eq!(report.reasons.len(), MAX_REPORTED_REASONS);
        assert_eq!(
            report.reasons[..2],
            [(OTHER_REASONS.to_owned(), 1_000), ("0".to_owned(), 2)]
        );
    }
}
