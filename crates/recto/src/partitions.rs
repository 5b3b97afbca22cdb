//! Lists of the partitions of a collection, which user interfaces show as a choice.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use recto_model::{Cells, RowSet};
use recto_store::{ScanPosition, TokenRange};

use crate::core::CollectionCore;
use crate::error::{Error, Result};
use crate::present::Presence;
use crate::record::DynamicRecord;
use crate::row_filter::RowFilter;
use crate::session::JsonRecord;

/// Maximum number of partitions that one step reads.
const STEP_PARTITIONS: u32 = 500;

/// Returns the partitions of a collection, each as the values of its partition fields. Omits
/// partitions without a record, and partitions that `row_filters` hide. The partitions are in the
/// store's own order. Nothing is read until the stream is polled.
pub(crate) fn steps(
    core: Arc<CollectionCore>,
    row_filters: Vec<String>,
) -> BoxStream<'static, Result<Vec<JsonRecord>>> {
    let begin = Some(None);
    let steps = stream::try_unfold(begin, move |position| {
        let (core, row_filters) = (Arc::clone(&core), row_filters.clone());
        async move {
            let Some(after) = position else {
                return Ok::<_, Error>(None);
            };
            core.check_still_held()?;
            let filter = RowFilter::new(&core.definition, &row_filters)?;
            filter.check_lists_partitions()?;
            let (found, next) = step(&core, &filter, after).await?;
            Ok(Some((found, next.map(Some))))
        }
    });
    steps.boxed()
}

type Step = (Vec<JsonRecord>, Option<ScanPosition>);

async fn step(core: &CollectionCore, filter: &RowFilter<'_>, after: Option<ScanPosition>) -> Result<Step> {
    let snapshot = core.shared.store.snapshot()?;
    let options = core.shared.read_options();
    let table = &core.base().table;
    let whole = TokenRange::whole();
    let Some(presence) = Presence::of(core.base()) else {
        let read = snapshot
            .scan_partitions(table, &whole, after.as_ref(), STEP_PARTITIONS, &options)
            .await?;
        return Ok((records(core, filter, &read.rows)?, read.next));
    };
    // If records change, each partition has one row, whose columns show whether the record exists.
    // So scan rows instead of partitions.
    let read = snapshot
        .scan(table, &whole, after.as_ref(), STEP_PARTITIONS, &options)
        .await?;
    let now = core.shared.environment.now_micros();
    let mut present = RowSet::new(table.columns().len());
    for row in read.rows.iter() {
        if presence.has(row, now)? {
            present.push_row(row);
        }
    }
    Ok((records(core, filter, &present)?, read.next))
}

fn records(core: &CollectionCore, filter: &RowFilter<'_>, partitions: &RowSet) -> Result<Vec<JsonRecord>> {
    let base = core.base();
    let others = base.table.columns().len() - base.table.partition().len();
    let fields: Vec<String> = base
        .table
        .partition()
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let mut found = Vec::with_capacity(partitions.len());
    for partition in partitions.iter() {
        let key = partition.iter().take(fields.len());
        let row: Cells = key.chain(std::iter::repeat_n(None, others)).collect();
        let record = DynamicRecord::read(core, base, row.as_row())?;
        if filter.matches(&record) {
            found.push(record.to_json_of(&fields));
        }
    }
    Ok(found)
}
