//! Views in pieces, which the tests keep themselves: no release writes them yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use recto::schema::{Collection, Holds, Schema};
use recto::store::{Atomicity, Mutation, Operation, PartitionWrite, Stamp, WriteOptions, WriteOutcome};
use recto::{DynamicRecord, Recto, Type};
use recto_model::{Cells, cell};
use recto_plan::Arrangement;

use super::pieces::Cuts;

/// How often entries are written until it is known that they are.
const MAX_ATTEMPTS: u32 = 5;
/// Entries of one write.
const WRITE_ENTRIES: usize = 50;

/// Applies what a release can of a schema's text, and takes the whole for what the store holds: its views are
/// there, and empty.
pub(crate) async fn apply_with_views(recto: &Recto, text: &str) {
    let whole = super::stores::parse(text);
    let (plain, _) = text.split_once("# views").unwrap_or((text, ""));
    recto.apply(&super::stores::parse(plain)).await.unwrap();
    make_tables(recto, &whole).await;
    recto.assume(whole);
}

async fn make_tables(recto: &Recto, schema: &Schema) {
    for (_, view) in views_of(schema) {
        recto.store().create_table(&view.table).await.unwrap();
    }
}

/// The views of a schema, each with its collection's name; they are counted as the store counts them.
fn views_of(schema: &Schema) -> Vec<(&str, Arrangement)> {
    let mut views = Vec::new();
    for collection in &schema.collections {
        for view in collection.arrangements().into_iter().skip(1) {
            let table = view.table_name(views.len() as u64 + 1);
            views.push((&*collection.name, Arrangement::new(&view, table).unwrap()));
        }
    }
    views
}

/// The views of a collection, to be written to.
#[derive(Debug, Clone)]
pub(crate) struct Entries {
    recto: Recto,
    views: Vec<Arrangement>,
    collection: Arc<Collection>,
    cuts: Arc<Cuts>,
}

impl Entries {
    pub(crate) fn new(recto: &Recto, collection: &str) -> Self {
        Self::cut_by(recto, collection, Cuts::shared())
    }

    /// Where views are in pieces, they are cut by `cuts`.
    pub(crate) fn cut_by(recto: &Recto, collection: &str, cuts: Arc<Cuts>) -> Self {
        let schema = recto.schema();
        let views = views_of(&schema).into_iter();
        let views = views.filter(|(name, _)| *name == collection);
        Self {
            recto: recto.clone(),
            views: views.map(|(_, view)| view).collect(),
            collection: Arc::clone(schema.collection(collection).unwrap()),
            cuts,
        }
    }

    pub(crate) async fn put<'a>(&self, records: impl Iterator<Item = &'a DynamicRecord>) {
        self.write(records, false).await;
    }

    pub(crate) async fn delete(&self, record: &DynamicRecord) {
        self.write(std::iter::once(record), true).await;
    }

    async fn write<'a>(&self, records: impl Iterator<Item = &'a DynamicRecord>, deletes: bool) {
        let stamp = Stamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64);
        let records: Vec<&DynamicRecord> = records.collect();
        let mut writes = Vec::new();
        // The others are written with their records.
        for view in self.views.iter().filter(|view| view.is_in_pieces()) {
            let entries = records
                .iter()
                .filter_map(|record| self.cells(view, record, stamp));
            let entries: Vec<Cells> = entries.collect();
            self.cut(view, &entries);
            writes.extend(
                entries
                    .iter()
                    .map(|cells| self.entry(view, cells, stamp, deletes)),
            );
        }
        for chunk in writes.chunks(WRITE_ENTRIES) {
            for attempt in 1.. {
                let (store, options) = (self.recto.store(), WriteOptions::default());
                match store.write_many(chunk.to_vec(), Atomicity::Each, options).await {
                    Ok(WriteOutcome::Done) => break,
                    Ok(WriteOutcome::Unknown(_)) if attempt < MAX_ATTEMPTS => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// The cells of a record's entry, without those of hidden partition columns; none if it has none.
    fn cells(&self, view: &Arrangement, record: &DynamicRecord, stamp: Stamp) -> Option<Cells> {
        let field_cell = |field: usize| {
            let mut bytes = Vec::new();
            let value = record.values()[field].as_ref()?;
            cell::encode(&self.collection.fields[field].ty, value, &mut bytes).unwrap();
            Some(bytes)
        };
        let mut cells = Cells::new();
        for (column, holds) in view.holds.iter().enumerate() {
            match *holds {
                Holds::Field(field) if column < view.table.key_len() => {
                    let ty = &self.collection.fields[field].ty;
                    let any = || view.derives_nulls_of(column).then(|| any_value_of(ty));
                    let bytes = field_cell(field).or_else(any)?;
                    cells
                        .try_push_with(|out| cell::canonical_key(ty, &bytes, out))
                        .unwrap();
                }
                Holds::Field(field) => cells.push(field_cell(field).as_deref()),
                Holds::Derived(field, derivation) => {
                    cells.push(Some(derivation.of(field_cell(field).as_deref())));
                }
                Holds::Hidden if view.is_partition(column) => {}
                Holds::Hidden => cells.push(Some(&stamp.0.to_be_bytes())),
            }
        }
        Some(cells)
    }

    /// Cuts the partitions that entries are of.
    fn cut(&self, view: &Arrangement, entries: &[Cells]) {
        let mut rows: HashMap<Cells, Vec<Cells>> = HashMap::new();
        for cells in entries {
            let (partition, clustering, _) = parts(view, cells);
            rows.entry(partition).or_default().push(clustering);
        }
        for (partition, rows) in rows {
            self.cuts.cut(&view.table, &partition, &rows);
        }
    }

    /// The write of an entry.
    fn entry(&self, view: &Arrangement, cells: &Cells, stamp: Stamp, deletes: bool) -> PartitionWrite {
        let (mut partition, clustering, cells) = parts(view, cells);
        if view.is_in_pieces() {
            let hidden = self.cuts.hidden(&view.table, &partition, &clustering);
            hidden.iter().for_each(|cell| partition.push(cell));
        }
        let operation = if deletes {
            Operation::DeleteRow { clustering }
        } else {
            Operation::Put {
                clustering,
                cells,
                replace: true,
            }
        };
        PartitionWrite {
            table: Arc::clone(&view.table),
            partition,
            mutations: vec![Mutation {
                operation,
                stamp: Some(stamp),
                ttl_seconds: None,
            }],
        }
    }
}

/// The cells of an entry's logical partition, of its clustering key, and the rest.
fn parts(view: &Arrangement, cells: &Cells) -> (Cells, Cells, Cells) {
    let (partition, key) = (
        view.logical_len(),
        view.logical_len() + view.table.clustering().len(),
    );
    let part = |range: std::ops::Range<usize>| range.map(|index| cells.get(index)).collect();
    (part(0..partition), part(partition..key), part(key..cells.len()))
}

/// What stands where a null cannot.
fn any_value_of(ty: &Type) -> Vec<u8> {
    match ty {
        Type::Int => 7_i32.to_be_bytes().to_vec(),
        Type::Text => b"not null".to_vec(),
        other => panic!("no test has a null {other}"),
    }
}
