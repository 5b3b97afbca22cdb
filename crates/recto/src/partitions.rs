//! The partitions of a collection, for people who choose one.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use recto_model::{Cells, RowSet};

use crate::core::CollectionCore;
use crate::error::{Error, Result};
use crate::record::DynamicRecord;
use crate::row_filter::RowFilter;
use crate::session::JsonRecord;

/// Partitions read at a time.
const STEP_PARTITIONS: u32 = 500;

/// The partition fields of each partition that has a record and that `row_filters` let through, in
/// steps and in the store's own order. Nothing is read until the stream is polled.
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
            let snapshot = core.shared.store.snapshot()?;
            let options = core.shared.read_options();
            let table = &core.base().table;
            let read = snapshot
                .partitions(table, after.as_ref(), STEP_PARTITIONS, &options)
                .await?;
            let found = records(&core, &filter, &read.rows)?;
            Ok(Some((found, read.next.map(Some))))
        }
    });
    steps.boxed()
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
        let row: Cells = partition
            .iter()
            .chain(std::iter::repeat_n(None, others))
            .collect();
        let record = DynamicRecord::read(core, base, row.as_row())?;
        if filter.matches(&record) {
            found.push(record.to_json_of(&fields));
        }
    }
    Ok(found)
}
