//! What becomes of queries without one of the views that are proposed.
//!
//! Each answer is the planner's, over the arrangements that are left. What else may take a view's place belongs here:
//! another kind is another [`Instead`].

use std::sync::Arc;

use recto_model::schema::{Collection, View};
use recto_plan::planner::{self, Wishes};
use recto_plan::query::Constraint;
use recto_plan::residual::Residual;
use recto_plan::{Arrangement, Plan, Query, Shape};

use crate::bound::Bound;
use crate::design::{Instead, Without, WithoutQuery};

/// For each view that is proposed, what becomes of its queries without it.
pub(crate) fn without_each(
    collection: &Collection,
    all: &[Arc<Arrangement>],
    views: &[View],
    queries: &[Bound<'_>],
    plans: &[Arc<Plan>],
) -> Vec<Without> {
    let without = |view: &View| {
        let others = all.iter().filter(|one| one.name != view.name).cloned();
        let others: Vec<Arc<Arrangement>> = others.collect();
        let its = queries
            .iter()
            .zip(plans)
            .filter(|(_, plan)| plan.arrangement.name == view.name);
        Without {
            view: view.name.clone(),
            queries: its
                .map(|(query, _)| WithoutQuery {
                    query: query.asked.name.clone(),
                    instead: instead(collection, &others, &query.query),
                })
                .collect(),
        }
    };
    views.iter().map(without).collect()
}

/// What is to be had of a query from these arrangements: the least costly that there is.
fn instead(collection: &Collection, others: &[Arc<Arrangement>], query: &Arc<Query>) -> Instead {
    let names = |fields: &[usize]| -> Vec<String> {
        fields
            .iter()
            .map(|field| collection.fields[*field].name.clone())
            .collect()
    };
    if let Ok(plans) = planner::plan(collection, others, query, &Wishes::default()) {
        let plan = &plans.plans[0];
        return if plan.shape == Shape::Intersect {
            Instead::Intersect {
                views: names_of(plan),
            }
        } else {
            Instead::Served {
                view: plan.arrangement.name.clone(),
            }
        };
    }
    let merges = others
        .iter()
        .filter_map(|one| Some((one, merged(collection, one, query)?)));
    if let Some((one, fields)) = merges.min_by_key(|(_, fields)| fields.len()) {
        return Instead::Merge {
            view: one.name.clone(),
            fields: names(&fields),
        };
    }
    let wishes = Wishes {
        allow_residual: true,
        ..Wishes::default()
    };
    let plans = planner::plan(collection, others, query, &wishes);
    let plans = plans.iter().flat_map(|plans| &plans.plans);
    let checked = |plan: &Arc<Plan>| Residual::checked_fields(&plan.residual);
    match plans.min_by_key(|plan| checked(plan).len()) {
        Some(plan) => Instead::Residual {
            views: names_of(plan),
            fields: names(&checked(plan)),
        },
        None => Instead::Refused,
    }
}

fn names_of(plan: &Plan) -> Vec<String> {
    plan.read_from().into_iter().map(str::to_owned).collect()
}

/// The fields of an arrangement's partition on which a query has no condition, if it serves the query with a list of values of
/// each.
fn merged(collection: &Collection, arrangement: &Arrangement, query: &Query) -> Option<Vec<usize>> {
    let partition = (0..arrangement.partition_len()).filter_map(|column| arrangement.field_of(column));
    let fields: Vec<usize> = partition
        .filter(|field| !query.fields().any(|one| one == *field))
        .collect();
    let mut listed = query.clone();
    for &field in &fields {
        let place = listed.constraints.partition_point(|(other, _)| *other < field);
        // What is compared with is not looked at, only that it is more than one value.
        let values = Constraint::In(vec![vec![0], vec![1]]);
        listed.constraints.insert(place, (field, values));
    }
    planner::serves(collection, arrangement, &listed, &Wishes::default())?;
    Some(fields)
}
