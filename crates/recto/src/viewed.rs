//! State of a collection that the maintenance of views needs: its views, and its base table with
//! versions.

use std::collections::BTreeSet;
use std::sync::Arc;

use recto_model::schema::{Collection, Holds, WriteMode};
use recto_model::{Cells, RowRef, Table};
use recto_plan::SortOrder;
use recto_protocol::views::collection::KeyCells;
use recto_protocol::views::{
    BaseRead, BaseTable, Generation, Mend, Row, RowClaims, Token, Tokens, Verdict, Version, ViewNumber,
    ViewedCollection, judge, remove,
};
use recto_store::PartitionWrite;
use recto_store::check::{CELL_OVERHEAD_BYTES, MUTATION_OVERHEAD_BYTES};

use crate::catalog::Recorded;
use crate::entries::EntryWrites;
use crate::error::{Error, ErrorKind, Result};
use crate::paging::Judge;

/// Maximum size in bytes of a record that can change, on every store. On Cassandra, a conditional
/// write must not be larger than the maximum size of a mutation.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// Version of a row whose write timestamp is unknown. Every known timestamp is newer.
const LEAST_STAMP: i64 = 1;

/// Collection whose writes must also maintain views, or whose records can change.
#[derive(Debug)]
pub(crate) struct Viewed {
    /// Views and unique constraints that writes maintain.
    pub(crate) views: ViewedCollection,
    /// Base table of records that can change. `None`: rows of the collection are written without
    /// conditions.
    pub(crate) base: Option<BaseTable>,
    /// Base table by the current definition of the collection.
    pub(crate) table: Arc<Table>,
    /// For each field of the collection, the index of its column in the base table.
    columns: Vec<usize>,
}

/// Write timestamp and time of expiry of a row that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// Newest write timestamp of the row's values; 0 if it is unknown.
    pub(crate) stamp: i64,
    /// Time at which the row expires by the local clock, in microseconds since 1970.
    pub(crate) ends_at: Option<i64>,
}

impl Written {
    /// Value for a row that was read without its timestamp and time of expiry.
    pub(crate) const UNTOLD: Self = Self {
        stamp: 0,
        ends_at: None,
    };
}

impl Viewed {
    /// Returns the views and base table of a collection. Returns `None` if every write of the
    /// collection affects only the base table.
    pub(crate) fn new(recorded: &Recorded, collection: &Collection) -> Option<Self> {
        if collection.attached.is_some() {
            return None;
        }
        let written = recorded
            .views
            .of(&collection.name)
            .filter(|view| view.is_written());
        let written = written.map(|kept| (ViewNumber(kept.number), kept.arranged(collection)));
        let views = ViewedCollection::new(Generation(recorded.generation), collection, written).ok()?;
        let unique = recorded.views.unique_of(&collection.name);
        let unique = unique.map(|kept| kept.claims_table(collection));
        let views = views.with_unique(unique.collect::<Result<Vec<_>, _>>().ok()?);
        let viewed = Self::of(views, collection)?;
        (viewed.base.is_some() || !viewed.views.views().is_empty()).then_some(viewed)
    }

    /// Creates the state from given views and the definition of a collection. Returns `None` if the
    /// definition has no valid base table.
    pub(crate) fn of(views: ViewedCollection, collection: &Collection) -> Option<Self> {
        let base = match collection.writes {
            WriteMode::Update => Some(BaseTable::new(collection).ok()?),
            WriteMode::Overwrite | WriteMode::Append => None,
        };
        let (table, holds) = collection.base().table(&collection.name).ok()?;
        let column_of = |field: usize| holds.iter().position(|holds| *holds == Holds::Field(field));
        Some(Self {
            views,
            base,
            table: Arc::new(table),
            columns: (0..collection.fields.len()).filter_map(column_of).collect(),
        })
    }

    /// Parses a row of the base table. In a collection without versions, the version of the record
    /// is the write timestamp of the row's values, or [`LEAST_STAMP`] if the timestamp is unknown.
    ///
    /// # Errors
    /// The row is damaged, or was written by a newer release.
    pub(crate) fn row(&self, row: RowRef<'_>, written: Written) -> Result<Option<Row<Cells, KeyCells>>> {
        let Some(base) = &self.base else {
            return Ok(Some(Row {
                tokens: Tokens::pushed(None, Token(0)),
                version: Version(written.stamp.max(LEAST_STAMP)),
                generation: Generation(0),
                record: Some(self.columns.iter().map(|column| row.get(*column)).collect()),
                expires_at: written.ends_at,
                must_go: BTreeSet::new(),
                claims: RowClaims::NONE,
            }));
        };
        base.row(row).map_err(|error| {
            Error::new(ErrorKind::Corrupt, error.to_string())
                .with_hint(error.hint())
                .with_source(error)
        })
    }
}

/// Returns an error if a record is larger than [`MAX_RECORD_BYTES`].
pub(crate) fn check_size(collection: &str, record: &Cells) -> Result<()> {
    let bytes = record.byte_len() + record.len() * CELL_OVERHEAD_BYTES + MUTATION_OVERHEAD_BYTES;
    if bytes <= MAX_RECORD_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::LimitExceeded,
        format!("a record of {collection} would have {bytes} bytes; at most {MAX_RECORD_BYTES} are allowed"),
    )
    .with_hint("store smaller records, or keep large values elsewhere"))
}

impl Viewed {
    /// Returns the judge that decides whether rows of a view match their records. Returns `None` if
    /// writes do not maintain the view.
    pub(crate) fn judge_of(self: &Arc<Self>, view: &SortOrder) -> Option<Arc<dyn Judge>> {
        let mut views = self.views.views().iter();
        let view = views.find(|one| one.table().name() == view.table.name())?;
        Some(Arc::new(ViewJudge {
            viewed: Arc::clone(self),
            view: view.number(),
        }))
    }
}

/// Decides whether rows of one view match their records, for reads that must not return stale rows.
#[derive(Debug)]
struct ViewJudge {
    viewed: Arc<Viewed>,
    view: ViewNumber,
}

impl Judge for ViewJudge {
    fn judge(
        &self,
        row: RowRef<'_>,
        base: Option<RowRef<'_>>,
        read: BaseRead,
        now_micros: i64,
    ) -> Result<Verdict> {
        let views = &self.viewed.views;
        let Some(seen) = views.view(self.view).and_then(|view| view.seen(row)) else {
            // Recto writes every entry with a version, so an entry without a version is stale.
            return Ok(Verdict::Stale);
        };
        let base = match base {
            Some(base) => self.viewed.row(base, Written::UNTOLD)?,
            None => None,
        };
        Ok(judge(&seen, base.as_ref(), read, views, now_micros))
    }

    fn removal(&self, row: RowRef<'_>, now_micros: i64) -> Option<PartitionWrite> {
        let view = self.viewed.views.view(self.view)?;
        let Mend::Remove(key, version) = remove::<ViewedCollection>(&view.seen(row)?) else {
            return None;
        };
        // A deletion with a timestamp in the future would hide later writes at this key, so leave
        // the entry to `verify` with repair.
        let is_over = version.0 <= now_micros;
        is_over
            .then(|| EntryWrites::remove(view, &key.key, version))
            .flatten()
    }
}
