//! Ways to serve queries without one of the proposed views.
//!
//! The planner finds each way, with the sort orders (base table and views) that remain. To support
//! a new way, add a variant of [`ViewAlternative`] and return it here.

use std::sync::Arc;

use crate::filter_scan::ScanCondition;
use crate::planner::{self, Wishes};
use crate::query::Constraint;
use crate::{Plan, Query, Shape, SortOrder};
use recto_model::schema::{Collection, View};

use crate::advisor::bound::Bound;
use crate::advisor::design::{AffectedQuery, ViewAlternative, ViewRemoval};

/// Returns, for each proposed view, how its queries can be served if the view is not added.
pub(crate) fn without_each(
    collection: &Collection,
    all: &[Arc<SortOrder>],
    views: &[View],
    queries: &[Bound<'_>],
    plans: &[Arc<Plan>],
) -> Vec<ViewRemoval> {
    let without = |view: &View| {
        let others = all.iter().filter(|one| one.name != view.name).cloned();
        let others: Vec<Arc<SortOrder>> = others.collect();
        let its = queries
            .iter()
            .zip(plans)
            .filter(|(_, plan)| plan.sort_order.name == view.name);
        ViewRemoval {
            view: view.name.clone(),
            queries: its
                .map(|(query, _)| AffectedQuery {
                    query: query.asked.name.clone(),
                    instead: instead(collection, &others, &query.query),
                })
                .collect(),
        }
    };
    views.iter().map(without).collect()
}

/// Returns the cheapest way to serve a query from `others`, the sort orders that remain without a
/// proposed view.
fn instead(collection: &Collection, others: &[Arc<SortOrder>], query: &Arc<Query>) -> ViewAlternative {
    let names = |fields: &[usize]| -> Vec<String> {
        fields
            .iter()
            .map(|field| collection.fields[*field].name.clone())
            .collect()
    };
    if let Ok(plans) = planner::plan(collection, others, query, &Wishes::default()) {
        let plan = &plans.plans[0];
        return if plan.shape == Shape::Intersect {
            ViewAlternative::Intersect {
                views: names_of(plan),
            }
        } else {
            ViewAlternative::Served {
                view: plan.sort_order.name.clone(),
            }
        };
    }
    let merges = others
        .iter()
        .filter_map(|one| Some((one, merged(collection, one, query)?)));
    if let Some((one, fields)) = merges.min_by_key(|(_, fields)| fields.len()) {
        return ViewAlternative::Merge {
            view: one.name.clone(),
            fields: names(&fields),
        };
    }
    let wishes = Wishes {
        allow_filter_scan: true,
        ..Wishes::default()
    };
    let plans = planner::plan(collection, others, query, &wishes);
    let plans = plans.iter().flat_map(|plans| &plans.plans);
    let checked = |plan: &Arc<Plan>| ScanCondition::checked_fields(&plan.filter_scan);
    match plans.min_by_key(|plan| checked(plan).len()) {
        Some(plan) => ViewAlternative::ScanCondition {
            views: names_of(plan),
            fields: names(&checked(plan)),
        },
        None => ViewAlternative::Refused,
    }
}

fn names_of(plan: &Plan) -> Vec<String> {
    plan.read_from().into_iter().map(str::to_owned).collect()
}

/// Returns the partition fields of a sort order on which a query has no condition. If the query
/// listed all values of these fields, a merge of the sort order's partitions would serve it.
/// Returns `None` if the sort order would not serve the query even with such lists.
fn merged(collection: &Collection, sort_order: &SortOrder, query: &Query) -> Option<Vec<usize>> {
    let partition = (0..sort_order.partition_len()).filter_map(|column| sort_order.field_of(column));
    let fields: Vec<usize> = partition
        .filter(|field| !query.fields().any(|one| one == *field))
        .collect();
    let mut listed = query.clone();
    for &field in &fields {
        let place = listed.constraints.partition_point(|(other, _)| *other < field);
        // Use two arbitrary values: the planner needs a list of several values, but does not use
        // the values.
        let values = Constraint::In(vec![vec![0], vec![1]]);
        listed.constraints.insert(place, (field, values));
    }
    planner::serves(collection, sort_order, &listed, &Wishes::default())?;
    Some(fields)
}
