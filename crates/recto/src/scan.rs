//! Reads of a whole collection, or of all rows of a filter, in no particular order: for exports and copies.
//!
//! If the base table serves the filter without a filter scan, the scan reads pages of the filter. Otherwise
//! it reads the whole table in the store's own order and applies the filter to each row.
//!
//! | module | content |
//! |---|---|
//! | `ranges` | scans of whole tables, several ranges concurrently |
//! | `planned` | scans of the rows of a plan, page after page |
//! | `query` | requests for a scan |
//! | `token` | encrypted progress of a scan |

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

/// Number of rows after which measuring the sizes of rows ends.
const MAX_ROWS_MEASURED: u64 = 1_000_000;

/// Step of a scan: the rows that it read, and the token with which the scan continues after them.
struct Step {
    rows: RowSet,
    resume: Option<String>,
}

type Steps = BoxStream<'static, Result<Step>>;

#[derive(Debug, Clone, Default)]
struct ScanQuery {
    filter: String,
    /// Number of ranges that are read concurrently. 0: the default.
    parallel: u32,
    resume: Option<String>,
}

/// Returns the records of `request` that match `row_filters`, in steps. Nothing is read until the stream is polled.
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
    let asked = ScanQuery {
        filter: request.filter,
        parallel: request.parallel,
        // Like an empty page token, an empty resume token means the beginning.
        resume: request.resume_token.filter(|token| !token.is_empty()),
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

/// Measures the sizes of rows in the store's order, until [`MAX_ROWS_MEASURED`] rows were read.
pub(crate) async fn row_sizes(handle: Arc<Handle>) -> Result<RowSizes> {
    let mut sizes = RowSizes::default();
    let mut parts = parts(handle, Vec::new(), ScanQuery::default(), |_, _, row| {
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

/// Returns the parts of a scan (its rows in steps), with each row decoded by `read`.
fn parts<T: Send + 'static>(
    handle: Arc<Handle>,
    row_filters: Vec<String>,
    asked: ScanQuery,
    read: impl Fn(&CollectionCore, &SortOrder, RowRef<'_>) -> Result<T> + Send + 'static,
) -> BoxStream<'static, Result<ScanPart<T>>> {
    let begin = async move {
        // Take the collection once, so that a later change of its schema does not affect the scan.
        let rows = Rows::new(handle.now()?, &row_filters, &asked.filter)?;
        let steps = if let Some(query) = rows.planned(&row_filters, &asked.filter)? {
            planned::begin(query, &rows, asked.resume).await?
        } else {
            // A scan of the whole table also reads rows that row filters hide. `hides` makes the sizes of
            // steps random, so that they do not reveal the number of hidden rows.
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

/// Rows that a scan returns: their collection and the conditions on them.
struct Rows {
    core: Arc<CollectionCore>,
    sort_order: Arc<SortOrder>,
    /// Conditions of the request and of row filters. `None`: the scan returns all rows.
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

    /// Returns a query whose pages contain exactly the rows of the scan, if the base table serves it. Views
    /// are not used, because a view lacks records that have a null in the view's key.
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

    /// Returns the columns of the key that are not empty in any matching row. An empty cell is less than all
    /// values, so a lower bound on a column excludes empty cells.
    fn excludes_empty(&self) -> ColumnSet {
        let fields = self.query.iter().flat_map(Query::fields_bounded_below);
        let columns = fields.filter_map(|field| self.sort_order.column_of_field[field]);
        let in_key = columns.filter(|column| *column < self.sort_order.table.key_len());
        in_key.fold(ColumnSet::new(), ColumnSet::with)
    }

    fn seal(&self) -> Seal {
        Seal::new(Arc::clone(&self.core.shared), self.identity.clone())
    }

    /// Returns the part of a scan with the rows of `step` that are existing records and match the conditions,
    /// decoded by `read`.
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
