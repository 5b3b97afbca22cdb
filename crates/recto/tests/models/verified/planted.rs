//! Collection in a store without transactions, whose base rows and views the tests write
//! separately. The tests can thereby bring records into every state in which a writer may leave
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use recto::store::{
    Atomicity, Mutation, Operation, PartitionWrite, Stamp, Store, WriteOptions, WriteOutcome,
};
use recto::{DynamicRecord, OpenOptions, Recto};
use recto_model::schema::{Collection, Schema};
use recto_model::{Cells, cell};
use recto_protocol::views::{
    Arranged, BaseTable, Entry, EntryOperation, Generation, KeyCells, Micros, Row, Token, Tokens, Version,
    ViewNumber, ViewedCollection, operations,
};
use recto_store::CasOutcome;
use recto_store::write::{Cas, CasCondition, RowAddress};
use serde_json::Value as Json;

/// State of a record after its last change.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    tokens: Tokens,
    version: Version,
    /// Cells (encoded values) of the record, by field. `None`: the record was deleted.
    pub(crate) record: Option<Cells>,
}

/// Collection under test, with the states that its records must have.
pub(crate) struct Planted {
    pub(crate) recto: Recto,
    pub(crate) definition: Arc<Collection>,
    store: Arc<dyn Store>,
    views: ViewedCollection,
    base: BaseTable,
    known: HashMap<Cells, Known>,
    counted: i64,
}

impl Planted {
    /// Creates the tables of the schema's first collection in the store. The collection has no
    /// records.
    pub(crate) async fn new(store: Arc<dyn Store>, schema: &str) -> Self {
        let schema = Schema::parse(schema).unwrap();
        let definition = Arc::clone(&schema.collections[0]);
        let views = definition.views.iter().zip(1..);
        let views = views.map(|(view, number)| (ViewNumber(number), definition.arranged(view)));
        let views = ViewedCollection::new(Generation(1), &definition, views).unwrap();
        let base = BaseTable::new(&definition).unwrap();
        store.create_table(base.table()).await.unwrap();
        for view in views.views() {
            store.create_table(view.table()).await.unwrap();
        }
        let recto = Recto::with_store(Arc::clone(&store), OpenOptions::new())
            .await
            .unwrap();
        recto.assume(schema);
        Self {
            recto,
            definition,
            store,
            views,
            base,
            known: HashMap::new(),
            counted: 0,
        }
    }

    /// Returns the cells (encoded values) of the record `json`, in the order of the collection's
    /// fields.
    pub(crate) fn cells(&self, json: &Json) -> Cells {
        let json = json.as_object().unwrap();
        let record = DynamicRecord::from_json(Arc::clone(&self.definition), json).unwrap();
        let fields = self.definition.fields.iter().zip(record.values());
        let mut cells = Cells::new();
        for (field, value) in fields {
            let mut bytes = Vec::new();
            let value = value.as_ref();
            let value = value.map(|value| cell::encode(&field.ty, value, &mut bytes).map(|()| &bytes));
            cells.push(value.map(|bytes| bytes.unwrap().as_slice()));
        }
        cells
    }

    fn key(&self, record: &Cells) -> Cells {
        let fields = self.definition.key.iter();
        let fields = fields.map(|name| self.definition.field(name).unwrap().0);
        fields.map(|field| record.get(field)).collect()
    }

    /// Changes or deletes the base row of a record, but not its rows in the views. Returns the
    /// state of the record before the change. `None`: the record has never existed. With
    /// `expires_at`, the record expires at this time.
    pub(crate) async fn decide(
        &mut self,
        record: &Cells,
        deletes: bool,
        expires_at: Option<Micros>,
    ) -> Option<Known> {
        self.counted += 10;
        let key = self.key(record);
        let before = self.known.get(&key).cloned();
        let row = Row {
            tokens: Tokens::pushed(
                before.as_ref().map(|one| &one.tokens),
                Token(self.counted.unsigned_abs().into()),
            ),
            version: Version(self.counted),
            generation: Generation(1),
            record: (!deletes).then(|| record.clone()),
            expires_at,
            must_go: std::collections::BTreeSet::new(),
            claims: recto_protocol::views::RowClaims::NONE,
        };
        let expected = before
            .as_ref()
            .map(|one| recto_protocol::views::stored::encode_tokens(&one.tokens));
        let cas = Cas {
            table: Arc::clone(self.base.table()),
            partition: key.clone(),
            conditions: vec![CasCondition {
                row: RowAddress::Row(Cells::new()),
                column: BaseTable::TOKENS,
                expected,
            }],
            mutations: vec![Mutation {
                operation: Operation::Patch {
                    clustering: Cells::new(),
                    columns: self.base.conditional_columns(),
                    cells: self.base.conditional_cells(&row).unwrap(),
                },
                stamp: None,
                ttl_seconds: None,
            }],
        };
        let outcome = self.store.cas(cas, WriteOptions::default()).await;
        assert!(matches!(outcome.unwrap(), CasOutcome::Applied));
        let known = Known {
            tokens: row.tokens,
            version: row.version,
            record: row.record,
        };
        self.known.insert(key, known);
        before
    }

    /// Returns the current version of the record whose key is in `record`.
    pub(crate) fn version(&self, record: &Cells) -> Version {
        self.known[&self.key(record)].version
    }

    /// Changes the base row of a record and its rows in all views.
    pub(crate) async fn put(&mut self, record: &Cells) {
        let before = self.decide(record, false, None).await;
        self.settle(before.as_ref(), record).await;
    }

    /// Deletes the base row of a record and its rows in all views.
    pub(crate) async fn delete(&mut self, record: &Cells) {
        let before = self.decide(record, true, None).await;
        self.settle(before.as_ref(), record).await;
    }

    /// Updates the rows of a record in all views after [`decide`](Self::decide) changed its base
    /// row. `before` is the state that `decide` returned.
    pub(crate) async fn settle(&self, before: Option<&Known>, record: &Cells) {
        let now = &self.known[&self.key(record)];
        let entries = now.record.as_ref().map(|record| self.views.entries(record));
        let entries = entries.unwrap_or_default();
        if let Some(record) = before.and_then(|before| before.record.as_ref()) {
            for entry in self.views.entries(record) {
                if !entries.iter().any(|one| one.key == entry.key) {
                    self.remove_entry(&entry, now.version).await;
                }
            }
        }
        for entry in &entries {
            self.put_entry(entry, now.version).await;
        }
    }

    /// Returns the rows that a record must have in all views.
    pub(crate) fn entries(&self, record: &Cells) -> Vec<Entry<KeyCells, Cells>> {
        self.views.entries(record)
    }

    pub(crate) async fn put_entry(&self, entry: &Entry<KeyCells, Cells>, version: Version) {
        let view = self.views.view(entry.key.view).unwrap();
        let (_, clustering) = entry.key.key.in_table(view.table()).unwrap();
        for operation in operations(entry, version) {
            let (stamp, operation) = match operation {
                EntryOperation::Delete(stamp) => {
                    let clustering = clustering.clone();
                    (stamp, Operation::DeleteRow { clustering })
                }
                EntryOperation::Put { stamp, replaces, .. } => {
                    let put = Operation::Put {
                        clustering: clustering.clone(),
                        cells: view.regular_cells(entry, stamp),
                        replace: replaces,
                    };
                    (stamp, put)
                }
            };
            self.write(entry, stamp, operation).await;
        }
    }

    pub(crate) async fn remove_entry(&self, entry: &Entry<KeyCells, Cells>, version: Version) {
        let view = self.views.view(entry.key.view).unwrap();
        let (_, clustering) = entry.key.key.in_table(view.table()).unwrap();
        self.write(entry, version, Operation::DeleteRow { clustering })
            .await;
    }

    async fn write(&self, entry: &Entry<KeyCells, Cells>, version: Version, operation: Operation) {
        let view = self.views.view(entry.key.view).unwrap();
        let (partition, _) = entry.key.key.in_table(view.table()).unwrap();
        let write = PartitionWrite {
            table: Arc::clone(view.table()),
            partition,
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(version.0)),
                ttl_seconds: None,
            }],
        };
        let options = WriteOptions::default();
        let outcome = self.store.write_many(vec![write], Atomicity::Each, options).await;
        assert!(matches!(outcome.unwrap(), WriteOutcome::Done));
    }
}
