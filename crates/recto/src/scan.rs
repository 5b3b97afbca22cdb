//! Reading a whole collection, or all rows of a filter, in no order: for exports and copies.
//!
//! Rows that a filter asks for are read as a page of them would be, if the collection can serve it,
//! and then nothing else is read. Otherwise the whole table is read in the store's own order, and the
//! filter applied to each row.
//!
//! | module | holds |
//! |---|---|
//! | `ranges` | whole tables, several ranges side by side |
//! | `planned` | the rows of a plan, page after page |
//! | `query` | asking for one |
//! | `token` | how far a scan is, sealed |

mod planned;
mod query;
mod ranges;
mod token;

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use recto_model::{RowRef, RowSet};
use recto_plan::cursor::QueryIdentity;
use recto_plan::{Query, SortOrder, bind, planner};
use recto_store::ColumnSet;

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Handle;
use crate::present::{Presence, version_of};
use crate::query::PageQuery;
use crate::record::{DynamicRecord, check_fields};
use crate::row_filter;
use crate::session::{RowSizes, ScanRequest, ScanStep};
pub use query::{Scan, ScanPart};
use ranges::Reading;
use token::Seal;

/// Rows whose sizes are looked at, at most.
const MAX_ROWS_MEASURED: u64 = 1_000_000;

/// A step of a scan: rows, and the token to go on after them.
struct Step {
    rows: RowSet,
    resume: Option<String>,
}

type Steps = BoxStream<'static, Result<Step>>;

/// What is asked for.
#[derive(Debug, Clone, Default)]
struct Asked {
    filter: String,
    /// How many ranges to read side by side; 0 for the default.
    parallel: u32,
    resume: Option<String>,
}

/// The records that `request` asks for and `row_filters` let through, in steps. Nothing is read until
/// the stream is polled.
pub(crate) fn steps(
    handle: &Arc<Handle>,
    row_filters: Vec<String>,
    request: ScanRequest,
) -> BoxStream<'static, Result<ScanStep>> {
    let fields = request.fields;
    let handle = Arc::clone(handle);
    let known = handle
        .now()
        .and_then(|core| check_fields(&core.definition, &fields));
    let asked = Asked {
        filter: request.filter,
        parallel: request.parallel,
        resume: request.resume_token,
    };
    let read = move |core: &CollectionCore, sort_order: &SortOrder, row: RowRef<'_>| {
        let record = DynamicRecord::read_fields(core, sort_order, row, &fields)?.to_json_of(&fields);
        Ok((record, version_of(sort_order, row)))
    };
    let parts = stream::once(async move { known.map(|()| parts(handle, row_filters, asked, read)) });
    let steps = parts.try_flatten().map_ok(move |part| {
        let (records, versions) = part.items.into_iter().unzip();
        ScanStep {
            records,
            resume: part.resume,
            versions: Some(versions).filter(|_| request.versions),
        }
    });
    steps.boxed()
}

/// How large the rows are that the store gives first.
pub(crate) async fn row_sizes(handle: Arc<Handle>) -> Result<RowSizes> {
    let mut sizes = RowSizes::default();
    let mut parts = parts(handle, Vec::new(), Asked::default(), |_, _, row| {
        Ok(row.byte_len() as u64)
    });
    while let Some(part) = parts.try_next().await? {
        for bytes in part.items {
            sizes.add(bytes);
        }
        if sizes.rows >= MAX_ROWS_MEASURED {
            break;
        }
    }
    Ok(sizes)
}

/// The same, with each row read by `read`.
fn parts<T: Send + 'static>(
    handle: Arc<Handle>,
    row_filters: Vec<String>,
    asked: Asked,
    read: impl Fn(&CollectionCore, &SortOrder, RowRef<'_>) -> Result<T> + Send + 'static,
) -> BoxStream<'static, Result<ScanPart<T>>> {
    let begin = async move {
        // It goes on with the collection as it is when it begins.
        let rows = Rows::new(handle.now()?, &row_filters, &asked.filter)?;
        let steps = if let Some(query) = rows.planned(&row_filters, &asked.filter)? {
            planned::begin(query, &rows, asked.resume).await?
        } else {
            // Rows of the whole table are read, also those that row filters hide.
            let reading = Reading {
                hides: !row_filters.is_empty(),
                leaves_out: rows.excludes_empty(),
            };
            ranges::begin(&rows, asked.parallel, reading, asked.resume).await?
        };
        Ok::<_, Error>(steps.map(move |step| rows.read(&step?, &read)))
    };
    stream::once(begin).try_flatten().boxed()
}

/// Which rows a scan is of.
struct Rows {
    core: Arc<CollectionCore>,
    sort_order: Arc<SortOrder>,
    /// All conditions: those asked for and those of row filters. None for all rows.
    query: Option<Query>,
    identity: QueryIdentity,
}

impl Rows {
    fn new(core: Arc<CollectionCore>, row_filters: &[String], filter: &str) -> Result<Self> {
        let definition = &core.definition;
        let mut conditions = bind::conditions(definition, filter)?;
        conditions.extend(row_filter::conditions(definition, row_filters)?);
        let query = Query::new(definition, &conditions, &[])?;
        let sort_order = Arc::clone(core.base());
        Ok(Self {
            identity: planner::scan_identity(definition, &sort_order, &query),
            query: (!conditions.is_empty()).then_some(query),
            sort_order,
            core,
        })
    }

    /// The pages that hold these rows, if the base table serves them: in a view, a row may be missing
    /// that lacks one of its columns.
    fn planned(&self, row_filters: &[String], filter: &str) -> Result<Option<PageQuery<DynamicRecord>>> {
        if self.query.is_none() {
            return Ok(None);
        }
        let pinned = Handle::pinned(Arc::clone(&self.core));
        let query = PageQuery::new(Arc::new(pinned), DynamicRecord::read);
        let query = query.filter(filter).restricted(row_filters);
        let query = query.view(&self.sort_order.name);
        match query.prepared() {
            Ok(_) => Ok(Some(query)),
            Err(error) if error.kind() == ErrorKind::NoPlan => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the columns of the key in which the conditions exclude a cell of no bytes: it is less than all values.
    fn excludes_empty(&self) -> ColumnSet {
        let fields = self.query.iter().flat_map(Query::fields_bounded_below);
        let columns = fields.filter_map(|field| self.sort_order.column_of_field[field]);
        let in_key = columns.filter(|column| *column < self.sort_order.table.key_len());
        in_key.fold(ColumnSet::new(), ColumnSet::with)
    }

    fn seal(&self) -> Seal {
        Seal::new(Arc::clone(&self.core.shared), self.identity.clone())
    }

    /// The records of a step that are among the rows.
    fn read<T>(
        &self,
        step: &Step,
        read: impl Fn(&CollectionCore, &SortOrder, RowRef<'_>) -> Result<T>,
    ) -> Result<ScanPart<T>> {
        let (presence, now) = (
            Presence::of(&self.sort_order),
            self.core.shared.environment.now_micros(),
        );
        let mut items = Vec::with_capacity(step.rows.len());
        for row in step.rows.iter().filter(|row| self.has(*row)) {
            let is_present = match presence {
                Some(presence) => presence.has(row, now)?,
                None => true,
            };
            if is_present {
                items.push(read(&self.core, &self.sort_order, row)?);
            }
        }
        Ok(ScanPart {
            items,
            resume: step.resume.clone(),
        })
    }

    fn has(&self, row: RowRef<'_>) -> bool {
        let cell = |field: usize| row.get(self.sort_order.column_of_field[field]?);
        self.query
            .as_ref()
            .is_none_or(|query| query.matches(&self.core.definition, cell))
    }
}
