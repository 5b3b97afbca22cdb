//! Lists and splits of buckets (parts of large partitions), for operators of a store.
//!
//! | module | content |
//! |---|---|
//! | `edges` | bounds of buckets and keys of partitions as JSON, and filters that select them |
//! | `tokens` | page tokens of lists |

mod edges;
mod tokens;

use std::sync::{Arc, Mutex, PoisonError};

use recto_buckets::Mended;
use recto_buckets::list::{ListedPiece, Seek, Stage, Summary};
use recto_model::Cells;
use recto_plan::SortOrder;
use recto_protocol::buckets::Figures;
use serde_json::Value as Json;

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Part, Result};
use crate::partition_store::PartitionStore;
use crate::session::{
    BucketFigures, BucketList, BucketPartition, BucketPartitions, BucketStatus, BucketTarget, BucketsRequest,
    Progress, RebalanceProgress, RebalanceReport, RebalanceRequest,
};
use edges::Edges;

/// Default number of buckets or partitions on a page of a list.
const DEFAULT_LISTED: u32 = 50;
/// Maximum number of buckets or partitions on a page. A larger requested number is reduced to this maximum.
pub(crate) const MAX_LISTED: u32 = 256;
/// Maximum number of positions (keys) whose buckets one request may ask for.
const MAX_PLACES: usize = 16;

/// Sort order (base table or view) of a collection that keeps its partitions in buckets.
struct Bucketed<'c> {
    core: &'c CollectionCore,
    store: &'c PartitionStore,
    sort_order: &'c Arc<SortOrder>,
    target: BucketTarget,
}

/// Returns a page of the partitions of a sort order, with the number and size of their buckets.
///
/// # Errors
/// The sort order does not exist, or is not kept in buckets. The request is invalid. The store cannot be read.
pub(crate) async fn partitions(core: &CollectionCore, request: &BucketsRequest) -> Result<BucketPartitions> {
    let bucketed = Bucketed::new(core, &request.view)?;
    let most = page_size(request.page_size)?;
    let position = tokens::read_position(&request.page_token)?;
    let table = &bucketed.sort_order.table;
    let listed = bucketed.store.list_partitions(table, position, most).await?;
    let edges = bucketed.edges();
    let partitions = listed.partitions.iter().map(|(partition, summary)| {
        Ok(BucketPartition {
            partition: edges.partition(partition)?,
            ..summed(summary)
        })
    });
    Ok(BucketPartitions {
        collection: core.definition.name.clone(),
        view: bucketed.sort_order.name.clone(),
        target: bucketed.target,
        partitions: partitions.collect::<Result<_>>()?,
        next_page_token: listed
            .next
            .map(|next| tokens::of_position(&next))
            .unwrap_or_default(),
    })
}

/// Returns a page of the buckets of the one partition that the request's filter selects.
///
/// # Errors
/// The errors of [`partitions`]. The filter does not select exactly one partition.
pub(crate) async fn buckets(core: &CollectionCore, request: &BucketsRequest) -> Result<BucketList> {
    let bucketed = Bucketed::new(core, &request.view)?;
    let most = page_size(request.page_size)?;
    let edges = bucketed.edges();
    let partition = edges.partition_of(&request.filter)?;
    let (store, table) = (bucketed.store, &bucketed.sort_order.table);
    let keys = match &request.at {
        None => Vec::new(),
        Some(at) => edges.places(at, MAX_PLACES)?,
    };
    let keys = keys.iter().map(|cells| store.key_of(table, cells));
    let keys: Vec<Vec<u8>> = keys.collect::<std::result::Result<_, _>>()?;
    let listed = match keys.first() {
        Some(first) if request.page_token.is_empty() => {
            store
                .list_buckets_around(table, &partition, first.clone(), most)
                .await?
        }
        _ => {
            let seek = tokens::read_seek(&request.page_token)?;
            store.list_buckets(table, &partition, seek, most).await?
        }
    };
    let places = keys.iter().map(|key| listed.position(key)).collect();
    let statuses = listed.pieces.iter().map(|piece| bucketed.status(&edges, piece));
    let token = |seek: Option<Seek>| seek.map(|seek| tokens::of_seek(&seek)).unwrap_or_default();
    Ok(BucketList {
        collection: core.definition.name.clone(),
        view: bucketed.sort_order.name.clone(),
        partition: edges.partition(&partition)?,
        order: edges.order(),
        target: bucketed.target,
        exact: store.is_exact(),
        buckets: statuses.collect::<Result<_>>()?,
        places,
        next_page_token: token(listed.behind.map(Seek::At)),
        previous_page_token: token(listed.before.map(|edge| Seek::Before(Some(edge)))),
    })
}

/// Splits buckets that are too large and joins key ranges with few rows, in the partition that the request's filter
/// selects, or without a filter in all partitions. An embedded store has no buckets to split: it deletes the rows
/// below the retention bound.
///
/// # Errors
/// The errors of [`buckets`]. A read or write does not succeed in time; completed changes stay.
pub(crate) async fn rebalance(
    core: &CollectionCore,
    request: &RebalanceRequest,
    progress: Progress<'_, RebalanceProgress>,
) -> Result<RebalanceReport> {
    let bucketed = Bucketed::new(core, &request.view)?;
    let edges = bucketed.edges();
    let report = Mutex::new(RebalanceReport::default());
    let told = |done: Mended| {
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        report.partitions += 1;
        report.buckets += done.buckets as u64;
        report.created += done.made as u64;
        report.joined += done.joined as u64;
        report.completed += done.went_on as u64;
        report.too_large += done.too_large as u64;
        report.cleared += done.cleared as u64;
        report.to_clear += done.to_clear as u64;
        report.deleted += done.deleted;
        progress(RebalanceProgress {
            partitions: report.partitions,
            created: report.created,
        });
    };
    let (store, table) = (bucketed.store, &bucketed.sort_order.table);
    let mut deleted = 0;
    if request.filter.is_empty() && !table.partition().is_empty() {
        deleted = store.mend_all(table, request.clear, &told).await?;
    } else {
        let partition = edges.partition_of(&request.filter)?;
        told(store.mend(table, &partition, request.clear).await?);
    }
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.deleted += deleted;
    Ok(report)
}

/// Returns the values of a partition's fields for display. If a clustering key is given, also returns the
/// values of its order fields. Damaged values become null.
pub(crate) fn place(
    core: &CollectionCore,
    sort_order: &SortOrder,
    partition: &Cells,
    clustering: Option<&Cells>,
) -> (Json, Option<Vec<Json>>) {
    let edges = Edges {
        definition: &core.definition,
        sort_order,
    };
    let is_whole = partition.len() == sort_order.partition_len();
    let named = is_whole.then(|| edges.partition(partition).ok()).flatten();
    let key = clustering.map(|cells| edges.edge(cells).unwrap_or_default());
    (named.map_or(Json::Null, |named| serde_json::json!(named)), key)
}

impl<'c> Bucketed<'c> {
    /// Finds a sort order of a collection by its name. The empty name selects the base table.
    fn new(core: &'c CollectionCore, view: &str) -> Result<Self> {
        let sort_order = match view {
            "" => core.base(),
            view => {
                let found = core.sort_orders.iter().find(|one| one.name == view);
                found.ok_or_else(|| no_view(core, view))?
            }
        };
        let Some(buckets) = sort_order.table.options().buckets else {
            return Err(not_in_buckets(core, sort_order));
        };
        let store = core.shared.partitions.as_ref().ok_or_else(kept_elsewhere)?;
        core.check_still_held()?;
        Ok(Self {
            core,
            store,
            sort_order,
            target: BucketTarget::of(buckets, store.is_exact()),
        })
    }

    fn edges(&self) -> Edges<'c> {
        Edges {
            definition: &self.core.definition,
            sort_order: self.sort_order,
        }
    }

    fn status(&self, edges: &Edges<'_>, piece: &ListedPiece) -> Result<BucketStatus> {
        let held = figures(piece.figures);
        Ok(BucketStatus {
            bucket: piece.bucket.0,
            start: edges.edge(&piece.start)?,
            end: piece.end.as_ref().map(|end| edges.edge(end)).transpose()?,
            figures: held,
            leftover: figures(piece.leftover),
            too_large: self.target.measure(held) > self.target.most(),
            step: step(piece.stage).to_owned(),
            other: piece.other.map(|other| other.0),
        })
    }
}

fn summed(summary: &Summary) -> BucketPartition {
    BucketPartition {
        buckets: summary.buckets,
        figures: figures(summary.figures),
        leftover: figures(summary.leftover),
        largest: figures(summary.largest),
        too_large: summary.too_large,
        being_cut: summary.is_being_cut,
        at_least: !summary.is_whole,
        ..BucketPartition::default()
    }
}

fn step(stage: Stage) -> &'static str {
    match stage {
        Stage::AtRest => "at_rest",
        Stage::Announced => "announced",
        Stage::Copying => "copying",
        Stage::Switched => "switched",
        Stage::Left => "left",
    }
}

fn figures(figures: Figures) -> BucketFigures {
    BucketFigures {
        rows: figures.rows,
        rows_error: figures.rows_error(),
        bytes: figures.bytes,
        bytes_error: figures.bytes_error(),
    }
}

/// Returns the page size by AIP-158: the default for an absent size or 0, an error for a negative size, and
/// the maximum for a larger size.
fn page_size(asked: Option<i64>) -> Result<usize> {
    match asked.unwrap_or(0) {
        negative if negative < 0 => {
            let message = format!("page_size is {negative}; it cannot be negative");
            Err(Error::new(ErrorKind::InvalidQuery, message).with_part(Part::PageSize))
        }
        0 => Ok(DEFAULT_LISTED as usize),
        asked => Ok(u32::try_from(asked).unwrap_or(MAX_LISTED).min(MAX_LISTED) as usize),
    }
}

#[cold]
fn no_view(core: &CollectionCore, asked: &str) -> Error {
    let names: Vec<&str> = core.sort_orders.iter().map(|one| one.name.as_str()).collect();
    let message = format!(
        "collection {} has no readable view {asked:?}",
        core.definition.name
    );
    Error::new(ErrorKind::InvalidQuery, message)
        .with_part(Part::View)
        .with_hint(format!("its views are {}", names.join(", ")))
}

#[cold]
fn not_in_buckets(core: &CollectionCore, sort_order: &SortOrder) -> Error {
    let (collection, view) = (&core.definition.name, &sort_order.name);
    let message = format!("{collection}.{view} has no buckets: the store keeps each of its partitions whole");
    let in_buckets = core.sort_orders.iter();
    let in_buckets = in_buckets.filter(|one| one.table.options().buckets.is_some());
    let in_buckets: Vec<String> = in_buckets
        .map(|one| format!("{collection}.{}", one.name))
        .collect();
    let hint = if in_buckets.is_empty() {
        "declare buckets in the schema: bucket = { target = \"10MB\" }".to_owned()
    } else {
        format!("use a view with buckets: {}", in_buckets.join(", "))
    };
    Error::new(ErrorKind::InvalidQuery, message)
        .with_part(Part::View)
        .with_hint(hint)
}

#[cold]
fn kept_elsewhere() -> Error {
    let message = "this store manages its buckets itself and does not show them";
    Error::new(ErrorKind::Unsupported, message)
}
