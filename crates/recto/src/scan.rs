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
//! | `token` | how far a scan is, sealed |

mod planned;
mod ranges;
mod token;

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use recto_model::{RowRef, RowSet};
use recto_plan::cursor::QueryIdentity;
use recto_plan::{Arrangement, Query, bind, planner};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::query::PageQuery;
use crate::record::{DynamicRecord, check_fields};
use crate::row_filter;
use crate::session::{JsonRecord, ScanRequest, ScanStep};
use token::Seal;

/// A step of a scan: rows, and the token to go on after them.
struct Step {
    rows: RowSet,
    resume: Option<String>,
}

type Steps = BoxStream<'static, Result<Step>>;

/// The records that `request` asks for and `row_filters` let through, in steps. Nothing is read until
/// the stream is polled.
pub(crate) fn steps(
    core: Arc<CollectionCore>,
    row_filters: Vec<String>,
    request: ScanRequest,
) -> BoxStream<'static, Result<ScanStep>> {
    let begin = async move {
        check_fields(&core.definition, &request.fields)?;
        let rows = Rows::new(Arc::clone(&core), &row_filters, &request.filter)?;
        let steps = match rows.planned(&row_filters, &request.filter)? {
            Some(query) => planned::begin(query, &rows, request.resume).await?,
            None => ranges::begin(&rows, request.parallel, request.resume).await?,
        };
        let fields = request.fields;
        Ok::<_, Error>(steps.map(move |step| rows.read(&step?, &fields)))
    };
    stream::once(begin).try_flatten().boxed()
}

/// Which rows a scan is of.
struct Rows {
    core: Arc<CollectionCore>,
    arrangement: Arc<Arrangement>,
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
        let arrangement = Arc::clone(core.base());
        Ok(Self {
            identity: planner::scan_identity(definition, &arrangement, &query),
            query: (!conditions.is_empty()).then_some(query),
            arrangement,
            core,
        })
    }

    /// The pages that hold these rows, if the base table serves them: in a view, a row may be missing
    /// that lacks one of its columns.
    fn planned(&self, row_filters: &[String], filter: &str) -> Result<Option<PageQuery<DynamicRecord>>> {
        if self.query.is_none() {
            return Ok(None);
        }
        let query = PageQuery::new(Arc::clone(&self.core), DynamicRecord::read);
        let query = query.filter(filter).restricted(row_filters);
        match query.planned() {
            Ok(planned) => Ok(Arc::ptr_eq(&planned.plan.arrangement, &self.arrangement).then_some(query)),
            Err(error) if error.kind() == ErrorKind::NoPlan => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn seal(&self) -> Seal {
        Seal::new(Arc::clone(&self.core.shared), self.identity.clone())
    }

    /// The records of a step that are among the rows, with these fields.
    fn read(&self, step: &Step, fields: &[String]) -> Result<ScanStep> {
        let mut records: Vec<JsonRecord> = Vec::with_capacity(step.rows.len());
        for row in step.rows.iter().filter(|row| self.has(*row)) {
            let record = DynamicRecord::read(&self.core, &self.arrangement, row)?;
            records.push(record.to_json_of(fields));
        }
        Ok(ScanStep {
            records,
            resume: step.resume.clone(),
        })
    }

    fn has(&self, row: RowRef<'_>) -> bool {
        let cell = |field: usize| row.get(self.arrangement.column_of_field[field]?);
        self.query
            .as_ref()
            .is_none_or(|query| query.matches(&self.core.definition, cell))
    }
}
