//! Design of views for given queries: the views to add, the view that serves each query, the costs,
//! and alternatives.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::planner::{self, Wishes};
use crate::refusal::{Advice, Refusal};
use crate::{Plan, Shape, SortOrder};
use recto_model::schema::{Collection, MAX_VIEWS, View};
use serde::Serialize;

use crate::advisor::alternatives;
use crate::advisor::arranged::Arranged;
use crate::advisor::bound::{Bound, Subject};
use crate::advisor::cover::{self, Cost, Cover, Queries, members};
use crate::advisor::error::{DesignError, DesignErrorKind};
use crate::advisor::needs::{Needs, Unserved};
use crate::advisor::workload::{MAX_QUERIES, WorkloadQuery};

/// Maximum number of different query shapes in one design. Shapes that existing views serve do not
/// count.
pub const MAX_SHAPES: usize = 32;

/// Result of [`design`]: the views to add to a collection so that it serves given queries, and the
/// consequences.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Design {
    /// Name of the collection for which the views were designed.
    pub collection: String,
    /// Given queries, in the given order, each with the view that serves it.
    pub queries: Vec<ServedQuery>,
    /// Views to add to the collection.
    pub views: Vec<ProposedView>,
    /// True if the number of views to add is proven minimal. If not, the search reached its maximum
    /// number of steps, so fewer views may be enough.
    pub is_minimal: bool,
    /// Number of tables to which one record is written today: the base table, and each view that
    /// contains the record.
    pub tables_before: usize,
    /// Number of tables to which one record would be written with the proposed views.
    pub tables_after: usize,
    /// For each proposed view, the ways to serve its queries without it.
    pub alternatives: Vec<ViewRemoval>,
    /// Names of existing views that serve none of the queries.
    pub unused: Vec<String>,
    /// Views that the queries would need if the collection had no views. `None` unless they are
    /// fewer than the views that the queries use with this design. A user can then save views by
    /// replacing the existing views.
    pub from_nothing: Option<Vec<ProposedView>>,
}

/// Given query, with the sort order (base table or view) that serves it and the shape of its plan.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ServedQuery {
    /// Query from the workload, unchanged.
    #[serde(flatten)]
    pub asked: WorkloadQuery,
    /// Name of the sort order (base table or view) that serves the query.
    pub view: String,
    /// True if the query is served by a view that must be added.
    pub is_new: bool,
    /// Shape of the plan: `scan` of one range of rows, or `merge` of several if the query lists values.
    pub shape: String,
    /// Number of slices (ranges of rows) that a page of the query reads.
    pub sources: usize,
    /// Fields that the view lacks. Each row needs a read of its base row for them.
    pub looked_up: Vec<String>,
}

/// Query that no view can serve.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Unservable {
    /// Query from the workload, unchanged.
    #[serde(flatten)]
    pub asked: WorkloadQuery,
    /// Reason why no view can serve the query.
    pub reason: String,
}

/// View that the design proposes to add.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ProposedView {
    /// Name of the view.
    pub name: String,
    /// Partition and order, in one line: `(origin), -time_hour, carrier`.
    pub sort_order: String,
    /// Declaration of the view in the language of schema files.
    pub declaration: String,
    /// Names of the queries that the view serves.
    pub serves: Vec<String>,
    /// View as a part of a schema.
    #[serde(skip)]
    pub view: View,
}

/// Ways to serve the queries of one proposed view if the view is not added.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ViewRemoval {
    /// Name of the proposed view.
    pub view: String,
    /// Queries that the view serves, each with its alternative.
    pub queries: Vec<AffectedQuery>,
}

/// Query that a proposed view serves, and how Recto could serve the query without the view.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct AffectedQuery {
    /// Name of the query.
    pub query: String,
    /// Way to serve the query without the view.
    #[serde(flatten)]
    pub instead: ViewAlternative,
}

/// Way to serve a query if a proposed view is not added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ViewAlternative {
    /// Another sort order (base table or view) serves the query without extra cost.
    Served {
        /// Name of the other sort order.
        view: String,
    },
    /// An intersection of several other views serves the query. A page takes more reads, but each
    /// write goes to one table less.
    Intersect {
        /// Names of the views that are intersected.
        views: Vec<String>,
    },
    /// With `allow_filter_scan`, other sort orders serve the query, and a filter scan checks the
    /// conditions on some fields. If there are several sort orders, they serve the other conditions
    /// by an intersection.
    ScanCondition {
        /// Names of the sort orders that are read.
        views: Vec<String>,
        /// Names of the fields whose conditions the filter scan checks.
        fields: Vec<String>,
    },
    /// The query must also list all values of some fields, as an OR of equalities. Then partitions
    /// of another sort order are merged.
    Merge {
        /// Name of the sort order whose partitions are merged.
        view: String,
        /// Names of the fields whose values the query must list.
        fields: Vec<String>,
    },
    /// There is no alternative: Recto rejects the query.
    Refused,
}

/// Proposes the minimum number of views that a collection needs, in addition to its existing views,
/// to serve each query without a filter scan. Designs with the same number of views are compared by
/// the following, in this order:
///
/// 1. number of views without a partition (fewer are better)
/// 2. number of partition fields (more are better)
/// 3. number of columns (fewer are better)
///
/// ```
/// use recto_plan::advisor::{design, parse_queries};
/// use recto_model::schema::Schema;
///
/// let schema = Schema::parse(
///     r#"
/// [collection.flights]
/// fields = { id = "int", origin = "text", dest = "text", at = "timestamp" }
/// key = ["id"]
/// "#,
/// )?;
/// let queries = parse_queries(
///     r#"
/// [[query]]
/// filter = 'origin = "JFK"'
/// order_by = "dest"
/// [[query]]
/// filter = 'origin = ? AND dest = ?'
/// order_by = "-at"
/// "#,
/// )?;
/// let design = design(&schema.collections[0], &queries)?;
/// assert_eq!(design.views.len(), 1);
/// assert_eq!(design.views[0].sort_order, "(origin), dest, -at, id");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// - A text is not a filter or a sort of the collection.
/// - No single view can serve a query.
/// - There are more than [`MAX_SHAPES`] shapes that no view serves yet, or more than [`MAX_QUERIES`] queries.
/// - The collection would have more views than allowed.
pub fn design(collection: &Collection, asked: &[WorkloadQuery]) -> Result<Design, DesignError> {
    if asked.len() > MAX_QUERIES {
        let message = format!("a design has at most {MAX_QUERIES} queries");
        return Err(DesignError::new(DesignErrorKind::Limit, message));
    }
    let queries = asked.iter().map(|asked| Bound::new(collection, asked));
    let queries = queries.collect::<Result<Vec<_>, _>>()?;
    let existing = sort_orders(collection)?;
    let (found, is_minimal) = proposed(collection, &existing, &queries)?;
    let (views, plans) = taken(collection, found, &queries)?;
    let with_views = extended(collection, &views);
    let all = sort_orders(&with_views)?;
    let served = queries.iter().zip(&plans);
    let served: Vec<ServedQuery> = served
        .map(|(query, plan)| served_query(collection, query, plan, &views))
        .collect();
    let is_used = |name: &str| served.iter().any(|query| query.view == name);
    let unused = collection.views.iter().map(|view| view.name.clone());
    Ok(Design {
        collection: collection.name.clone(),
        alternatives: alternatives::without_each(&with_views, &all, &views, &queries, &plans),
        unused: unused.filter(|name| !is_used(name)).collect(),
        from_nothing: from_nothing(collection, &queries, &plans),
        views: views
            .iter()
            .map(|view| proposed_view(collection, view, &served))
            .collect(),
        queries: served,
        is_minimal,
        tables_before: 1 + collection.views.len(),
        tables_after: 1 + collection.views.len() + views.len(),
    })
}

/// Divides queries into those for which views can be designed, and those that no view can serve.
/// Use this function before [`design`] for queries that you cannot change, such as queries in a
/// log: [`design`] fails if no view can serve one of its queries.
///
/// # Errors
/// The collection is invalid.
pub fn servable(
    collection: &Collection,
    asked: Vec<WorkloadQuery>,
) -> Result<(Vec<WorkloadQuery>, Vec<Unservable>), DesignError> {
    let existing = sort_orders(collection)?;
    let (mut kept, mut unservable) = (Vec::new(), Vec::new());
    for asked in asked {
        let needs =
            Bound::new(collection, &asked).and_then(|bound| unserved_needs(collection, &existing, &bound));
        match needs {
            Ok(_) => kept.push(asked),
            Err(error) if error.kind == DesignErrorKind::Internal => return Err(error),
            Err(error) => unservable.push(Unservable {
                reason: error.message,
                asked,
            }),
        }
    }
    Ok((kept, unservable))
}

/// Returns the sort orders of a collection (base table and views) in the form that the planner
/// needs.
pub(crate) fn sort_orders(collection: &Collection) -> Result<Vec<Arc<SortOrder>>, DesignError> {
    let sort_order = |one: &recto_model::schema::SortOrder<'_>| {
        let sort_order = SortOrder::new(one, one.name());
        sort_order.map(Arc::new).map_err(|error| {
            DesignError::new(
                DesignErrorKind::Internal,
                format!("{one} is not a sort order: {error}"),
            )
        })
    };
    collection.sort_orders().iter().map(sort_order).collect()
}

/// Returns the collection with additional views.
fn extended(collection: &Collection, views: &[View]) -> Collection {
    let mut collection = collection.clone();
    collection.views.extend(views.iter().cloned());
    collection
}

/// Returns the views to add to serve all queries. The flag is true if no smaller number of views
/// suffices.
fn proposed(
    collection: &Collection,
    existing: &[Arc<SortOrder>],
    queries: &[Bound<'_>],
) -> Result<(Vec<View>, bool), DesignError> {
    let mut shapes: Vec<Needs> = Vec::new();
    for query in queries {
        let needs = unserved_needs(collection, existing, query)?;
        if let Some(needs) = needs.filter(|needs| !shapes.contains(needs)) {
            shapes.push(needs);
        }
    }
    if shapes.len() > MAX_SHAPES {
        let message = format!(
            "{} different queries have no view yet; a design has views for at most {MAX_SHAPES} at a time",
            shapes.len()
        );
        return Err(DesignError::new(DesignErrorKind::Limit, message)
            .with_hint("leave out rare queries, and design views for them after you have added these"));
    }
    let cover = cover_of(collection, &shapes);
    if collection.views.len() + cover.groups.len() > MAX_VIEWS {
        let (has, wants) = (collection.views.len(), cover.groups.len());
        let message = format!(
            "a collection has at most {MAX_VIEWS} views: it has {has}, and these queries need {wants} more"
        );
        return Err(DesignError::new(DesignErrorKind::Limit, message));
    }
    Ok((views_of(collection, &shapes, &cover.groups), cover.is_minimal))
}

/// Returns the requirements of a query on a new view, or `None` if an existing sort order serves
/// the query without an intersection.
fn unserved_needs(
    collection: &Collection,
    existing: &[Arc<SortOrder>],
    query: &Bound<'_>,
) -> Result<Option<Needs>, DesignError> {
    match planner::plan(collection, existing, &query.query, &Wishes::default()) {
        // A query that only an intersection of several views serves counts as unserved, so that a
        // view for it is considered.
        Ok(plans) if plans.plans[0].shape != Shape::Intersect => Ok(None),
        Err(Refusal {
            advice: Advice::FewerValues(message),
            ..
        }) => Err(unserved_by_values(query, &message)),
        Ok(_) | Err(_) => needs_of(collection, query).map(Some),
    }
}

/// Returns the requirements of a query on a view. Asks the planner to confirm that a view designed
/// for the query alone would serve it.
fn needs_of(collection: &Collection, query: &Bound<'_>) -> Result<Needs, DesignError> {
    let needs = Needs::new(collection, &query.query);
    let needs = needs.map_err(|unserved| unserved_error(collection, query, unserved))?;
    let alone = extended(
        collection,
        &[Arranged::new(collection, &[&needs]).view(collection)],
    );
    match planner::plan(&alone, &sort_orders(&alone)?, &query.query, &Wishes::default()) {
        Ok(_) => Ok(needs),
        Err(Refusal {
            advice: Advice::FewerValues(message),
            ..
        }) => Err(unserved_by_values(query, &message)),
        Err(refusal) => Err(query.error(Subject::Filter, None, &refusal.to_string())),
    }
}

fn unserved_error(collection: &Collection, query: &Bound<'_>, unserved: Unserved) -> DesignError {
    let field = unserved.field.map(|field| collection.fields[field].name.as_str());
    let message = format!("no view can serve it: {}", unserved.message);
    query
        .error(unserved.subject, field, &message)
        .with_hint(unserved.hint)
}

fn unserved_by_values(query: &Bound<'_>, message: &str) -> DesignError {
    query
        .error(Subject::Filter, None, message)
        .with_hint("query fewer values at a time")
}

/// Divides queries into the minimum number of groups, so that one view can serve each group.
fn cover_of(collection: &Collection, shapes: &[Needs]) -> Cover {
    let agree: Vec<u64> = shapes
        .iter()
        .map(|one| {
            let others = shapes.iter().enumerate().filter(|(_, other)| one.agrees(other));
            others.fold(0, |set, (number, _)| set | 1 << number)
        })
        .collect();
    let pinned: Vec<usize> = shapes.iter().map(|needs| needs.pinned.len()).collect();
    let part = |one: usize, other: usize| shapes[one].pinned.is_subset(&shapes[other].pinned);
    let costs: RefCell<HashMap<u64, Cost>> = RefCell::default();
    let cost = |group: u64| {
        *costs.borrow_mut().entry(group).or_insert_with(|| {
            let arranged = arranged(collection, shapes, group);
            Cost {
                pinned: arranged.partition.len(),
                columns: arranged.columns(),
            }
        })
    };
    let queries = Queries {
        agree: &agree,
        pinned: &pinned,
        chains: &cover::chains(shapes.len(), part),
        cost: &cost,
    };
    queries.cover()
}

fn arranged(collection: &Collection, shapes: &[Needs], group: u64) -> Arranged {
    let needs: Vec<&Needs> = members(group).map(|number| &shapes[number]).collect();
    Arranged::new(collection, &needs)
}

/// Returns one view for each group of queries, each with a different name. The views are in the
/// order of the first query of each group.
fn views_of(collection: &Collection, shapes: &[Needs], groups: &[u64]) -> Vec<View> {
    let mut groups = groups.to_vec();
    groups.sort_by_key(|group| group.trailing_zeros());
    let mut with_views = collection.clone();
    for group in groups {
        let view = arranged(collection, shapes, group).view(&with_views);
        with_views.views.push(view);
    }
    with_views.views.split_off(collection.views.len())
}

/// Removes proposed views that the planner uses for none of the queries. Returns the remaining
/// views, and the plan of each query with these views.
///
/// # Errors
/// The planner does not serve a query, so the design is wrong.
fn taken(
    collection: &Collection,
    mut views: Vec<View>,
    queries: &[Bound<'_>],
) -> Result<(Vec<View>, Vec<Arc<Plan>>), DesignError> {
    loop {
        let with_views = extended(collection, &views);
        let all = sort_orders(&with_views)?;
        let plans = queries.iter().map(|query| {
            let plans = planner::plan(&with_views, &all, &query.query, &Wishes::default());
            let plans = plans.map_err(|refusal| {
                let why = format!("{refusal}; this is a defect of Recto");
                DesignError {
                    kind: DesignErrorKind::Internal,
                    ..query.error(Subject::Filter, None, &why)
                }
            })?;
            Ok(Arc::clone(&plans.plans[0]))
        });
        let plans = plans.collect::<Result<Vec<_>, DesignError>>()?;
        let before = views.len();
        views.retain(|view| plans.iter().any(|plan| plan.sort_order.name == view.name));
        if views.len() == before {
            return Ok((views, plans));
        }
    }
}

fn served_query(collection: &Collection, query: &Bound<'_>, plan: &Plan, views: &[View]) -> ServedQuery {
    let name = &plan.sort_order.name;
    let looked_up = plan
        .looked_up
        .iter()
        .map(|field| collection.fields[*field].name.clone());
    ServedQuery {
        asked: query.asked.clone(),
        view: name.clone(),
        is_new: views.iter().any(|view| view.name == *name),
        shape: plan.shape().to_string(),
        sources: plan.sources.len(),
        looked_up: looked_up.collect(),
    }
}

fn proposed_view(collection: &Collection, view: &View, served: &[ServedQuery]) -> ProposedView {
    let serves = served.iter().filter(|query| query.view == view.name);
    ProposedView {
        name: view.name.clone(),
        sort_order: collection.arranged(view).to_string(),
        declaration: collection.view_declaration(view),
        serves: serves.map(|query| query.asked.name.clone()).collect(),
        view: view.clone(),
    }
}

/// Returns the views that the queries would need if the collection had no views. Returns `None` in
/// two cases:
///
/// - The number of such views is not smaller than the number of views that the queries use.
/// - The design fails, because an existing view that serves a query is of a kind that is never
///   proposed.
fn from_nothing(
    collection: &Collection,
    queries: &[Bound<'_>],
    plans: &[Arc<Plan>],
) -> Option<Vec<ProposedView>> {
    let of_views = plans.iter().filter(|plan| !plan.sort_order.is_base);
    let used: BTreeSet<&str> = of_views.map(|plan| plan.sort_order.name.as_str()).collect();
    if !collection
        .views
        .iter()
        .any(|view| used.contains(view.name.as_str()))
    {
        return None;
    }
    let mut bare = collection.clone();
    bare.views.clear();
    let (views, _) = proposed(&bare, &sort_orders(&bare).ok()?, queries).ok()?;
    let (views, plans) = taken(&bare, views, queries).ok()?;
    if views.len() >= used.len() {
        return None;
    }
    let served = queries.iter().zip(&plans);
    let served: Vec<ServedQuery> = served
        .map(|(query, plan)| served_query(&bare, query, plan, &views))
        .collect();
    Some(
        views
            .iter()
            .map(|view| proposed_view(&bare, view, &served))
            .collect(),
    )
}
