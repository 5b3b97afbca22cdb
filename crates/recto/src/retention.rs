//! Count of the records that a shorter retention time deletes.

use std::sync::Arc;

use recto_api::display::grouped;
use recto_buckets::LateRows;
use recto_model::Cells;

use crate::catalog::apply::ShorterKeep;
use crate::error::Result;
use crate::shared::Shared;
use crate::whole_table::WholeTable;

/// Reads all records. Returns a line of the plan of an `apply`: the number of records that the
/// shorter retention time deletes.
///
/// # Errors
/// The store cannot be read, or a row is damaged.
pub(crate) async fn describe(
    keep: &ShorterKeep,
    rows_per_second: Option<u32>,
    shared: &Shared,
) -> Result<String> {
    let name = &keep.declared.name;
    Ok(match count(keep, rows_per_second, shared).await? {
        0 => format!("collection {name}: no record is older than the new `keep`"),
        1 => format!("collection {name}: 1 record is older than the new `keep` and will be deleted"),
        records => format!(
            "collection {name}: {} records are older than the new `keep` and will be deleted",
            grouped(records)
        ),
    })
}

async fn count(keep: &ShorterKeep, rows_per_second: Option<u32>, shared: &Shared) -> Result<u64> {
    let declared = keep.declared.base_table();
    let Some(late) = LateRows::of(&declared, shared.environment.now_micros())? else {
        return Ok(0);
    };
    let stored = Arc::new(keep.stored.base_table());
    let clustering = stored.partition().len()..stored.key_len();
    let mut count = 0;
    let mut reads = WholeTable::new(&stored, shared.read_options(), rows_per_second, shared).await?;
    while let Some(read) = reads.next().await? {
        for row in read.rows.iter() {
            let cells: Cells = clustering.clone().map(|column| row.get(column)).collect();
            count += u64::from(late.contain(cells.as_row())?);
        }
    }
    Ok(count)
}
