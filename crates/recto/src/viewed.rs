//! A collection as what keeps its views knows it.

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

/// The most bytes of a record that changes, on every store: Cassandra cannot decide a conditional write that is larger
/// than its mutations may be.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// The stamp of what is written for a row whose own is not known: any that is known is newer.
const LEAST_STAMP: i64 = 1;

/// A collection whose writes write views, or change records.
#[derive(Debug)]
pub(crate) struct Viewed {
    /// The views that are written.
    pub(crate) views: ViewedCollection,
    /// The base table of records that change; none in collections whose rows are written plainly.
    pub(crate) base: Option<BaseTable>,
    /// The base table, as it is now.
    pub(crate) table: Arc<Table>,
    /// For each field, the column of the base table that has it.
    columns: Vec<usize>,
}

/// What reads tell of a row beside its cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// The newest stamp of its values; 0 if that is not known.
    pub(crate) stamp: i64,
    /// When it ends, by the clock here.
    pub(crate) ends_at: Option<i64>,
}

impl Written {
    /// Of a row that was read for its cells only.
    pub(crate) const UNTOLD: Self = Self {
        stamp: 0,
        ends_at: None,
    };
}

impl Viewed {
    /// None if its writes are of one table only.
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

    /// Joins views with the base table of a collection.
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

    /// The row of a record as it stands in the base table. A row that is written plainly has the stamp of its values for
    /// its version, or the least.
    ///
    /// # Errors
    /// It is damaged, or was written by a newer release.
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

/// Refuses a record that is too large to change.
pub(crate) fn check_size(collection: &str, record: &Cells) -> Result<()> {
    let bytes = record.byte_len() + record.len() * CELL_OVERHEAD_BYTES + MUTATION_OVERHEAD_BYTES;
    if bytes <= MAX_RECORD_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::LimitExceeded,
        format!("a record of {collection} would have {bytes} bytes, {MAX_RECORD_BYTES} are the most"),
    )
    .with_hint("store smaller records, or keep large values elsewhere"))
}

impl Viewed {
    /// What says of rows of a view whether their records stand there; none if it is not written.
    pub(crate) fn judge_of(self: &Arc<Self>, view: &SortOrder) -> Option<Arc<dyn Judge>> {
        let mut views = self.views.views().iter();
        let view = views.find(|one| one.table().name() == view.table.name())?;
        Some(Arc::new(ViewJudge {
            viewed: Arc::clone(self),
            view: view.number(),
        }))
    }
}

/// Says of the rows of one view whether their records stand there.
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
            // Nobody writes an entry without a version.
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
        // What was deleted at a stamp of the future would hide what is written there next: `repair` sees to it.
        let is_over = version.0 <= now_micros;
        is_over
            .then(|| EntryWrites::remove(view, &key.key, version))
            .flatten()
    }
}
