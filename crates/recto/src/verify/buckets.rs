//! Checks of buckets. They precede the comparison of views, which would miss a row that is in the wrong bucket.

use recto_buckets::{Fault, FaultKind, FaultOutcome};
use recto_plan::SortOrder;

use super::Verification;
use super::place::Compared;
use crate::bucketed;
use crate::core::CollectionCore;
use crate::error::Result;
use crate::pace::Pace;
use crate::partition_store::PartitionStore;
use crate::session::{BucketFault, Progress, VerifiedBuckets, ViewProgress};
use crate::shared::Shared;

/// Number of rows that one step of a check reads.
const STEP_ROWS: u32 = 1_000;
/// Maximum number of faults in the buckets of a sort order that the report lists.
const MAX_EXAMPLES: usize = 20;

/// Progress of the check of one sort order's buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Looked {
    /// Position from which the check continues. `None`: the beginning of the sort order.
    pub(super) position: Option<Vec<u8>>,
    pub(super) is_over: bool,
    /// Results of the check before `position`.
    pub(super) found: VerifiedBuckets,
}

/// Returns the checks of all sort orders of a collection that have buckets. None of them has begun.
pub(super) fn untouched(core: &CollectionCore) -> Vec<Looked> {
    let is_known = core
        .shared
        .partitions
        .as_ref()
        .is_some_and(|store| store.buckets().is_some());
    let in_buckets = core.sort_orders.iter();
    let in_buckets = in_buckets.filter(|one| is_known && one.table.options().buckets.is_some());
    let untouched = in_buckets.map(|sort_order| Looked {
        position: None,
        is_over: false,
        found: VerifiedBuckets {
            collection: core.definition.name.clone(),
            view: sort_order.name.clone(),
            ..VerifiedBuckets::default()
        },
    });
    untouched.collect()
}

/// Continues the checks of sort orders that are not complete. `core_of` finds a collection by name.
///
/// # Errors
/// The store cannot be read or written.
pub(super) async fn look<'c>(
    how: &Verification,
    shared: &Shared,
    core_of: impl Fn(&str) -> Option<&'c CollectionCore>,
    compared: &mut Compared,
    progress: Progress<'_, ViewProgress>,
) -> Result<()> {
    let Some(store) = shared.partitions.as_ref().and_then(PartitionStore::buckets) else {
        return Ok(());
    };
    let mut pace = Pace::new(how.rows_per_second, &shared.environment);
    let mut rows = 0;
    for index in 0..compared.buckets.len() {
        let looked = compared.buckets[index].clone();
        let of = core_of(&looked.found.collection).and_then(|core| {
            let sort_order = core
                .sort_orders
                .iter()
                .find(|one| one.name == looked.found.view)?;
            Some((core, sort_order))
        });
        let Some((core, sort_order)) = of.filter(|_| !looked.is_over) else {
            continue;
        };
        let mut found = looked.found;
        let mut check = store
            .check_buckets(&sort_order.table, how.mends, looked.position.as_deref())
            .await?;
        loop {
            let step = check.step(pace.step_rows(STEP_ROWS)).await?;
            found.rows += step.rows;
            found.buckets += step.buckets;
            for fault in &step.faults {
                note(&mut found, fault, core, sort_order);
            }
            if step.position.is_some() || step.is_over {
                compared.buckets[index] = Looked {
                    position: step.position,
                    is_over: step.is_over,
                    found: found.clone(),
                };
            }
            rows += step.rows;
            progress(ViewProgress {
                collection: found.collection.clone(),
                view: found.view.clone(),
                step: "checking_buckets".to_owned(),
                rows,
                total: None,
                resume: compared.seal(shared),
            });
            if step.is_over {
                break;
            }
            let wait = pace.after(step.read, &shared.environment);
            tokio::time::sleep(wait).await;
        }
    }
    Ok(())
}

fn note(found: &mut VerifiedBuckets, fault: &Fault, core: &CollectionCore, sort_order: &SortOrder) {
    if fault.kind == FaultKind::TooLarge {
        found.too_large += 1;
        return;
    }
    *found.found.entry(fault.kind.word().to_owned()).or_default() += 1;
    found.repaired += u64::from(fault.outcome == FaultOutcome::Mended);
    if found.examples.len() < MAX_EXAMPLES {
        let (partition, key) = bucketed::place(core, sort_order, &fault.partition, fault.clustering.as_ref());
        found.examples.push(BucketFault {
            kind: fault.kind.word().to_owned(),
            partition,
            bucket: fault.bucket.map(|bucket| bucket.0),
            key,
            detail: fault.detail.clone(),
            outcome: match &fault.outcome {
                FaultOutcome::Left => String::new(),
                FaultOutcome::Mended => "repaired".to_owned(),
                FaultOutcome::Stays(why) => why.clone(),
            },
        });
    }
}
