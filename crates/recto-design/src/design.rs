//! All of it together: which views a collection needs, which query each serves, what that costs, and what else could
//! be had.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use recto_model::schema::{Collection, MAX_VIEWS, View};
use recto_plan::planner::{self, Wishes};
use recto_plan::refusal::{Advice, Refusal};
use recto_plan::{Plan, Shape, SortOrder};
use serde::Serialize;

use crate::alternatives;
use crate::arranged::Arranged;
use crate::asked::{Asked, MAX_QUERIES};
use crate::bound::{Bound, Subject};
use crate::cover::{self, Cost, Cover, Queries, members};
use crate::error::{DesignError, DesignErrorKind};
use crate::needs::{Needs, Unserved};

/// The most queries of different shapes that views are designed for at once, beside those that are served already.
pub const MAX_SHAPES: usize = 32;

/// Which views a collection needs.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Design {
    /// The collection.
    pub collection: String,
    /// The queries, as they were given, with what serves each.
    pub queries: Vec<ServedQuery>,
    /// The views to add.
    pub views: Vec<ProposedView>,
    /// Whether no fewer views would serve all of them beside what there is. If not, the search for fewer was given up after
    /// so many steps that there may be.
    pub is_minimal: bool,
    /// Tables that a record is written to as it is: the base table and each view that it is in.
    pub tables_before: usize,
    /// The same with the views that are proposed.
    pub tables_after: usize,
    /// What becomes of queries where one of the views is not had.
    pub alternatives: Vec<Without>,
    /// The views that there are and that serve none of the queries.
    pub unused: Vec<String>,
    /// The views that would do if there were none yet, where they are fewer than those that serve the queries now and those to add.
    pub from_nothing: Option<Vec<ProposedView>>,
}

/// A query, and what serves it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ServedQuery {
    /// As it was given.
    #[serde(flatten)]
    pub asked: Asked,
    /// The sort order that is taken for it.
    pub view: String,
    /// Whether that is one of the views to add.
    pub is_new: bool,
    /// How its pages are found: `scan`, or `merge` of several places where it lists values.
    pub shape: String,
    /// How many places are read.
    pub sources: usize,
    /// The fields that are looked up in the base table, row by row.
    pub looked_up: Vec<String>,
}

/// A query that no view can serve.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Unservable {
    /// As it was asked.
    #[serde(flatten)]
    pub asked: Asked,
    /// Why none can.
    pub reason: String,
}

/// A view to add.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ProposedView {
    /// What it is called.
    pub name: String,
    /// What it is by, in one line: `(origin), -time_hour, carrier`.
    pub sort_order: String,
    /// Its declaration, to be pasted into the schema.
    pub declaration: String,
    /// The queries for which it is taken.
    pub serves: Vec<String>,
    /// It itself.
    #[serde(skip)]
    pub view: View,
}

/// What becomes of queries without one of the views.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Without {
    /// The view that is not had.
    pub view: String,
    /// The queries that it serves.
    pub queries: Vec<WithoutQuery>,
}

/// A query without its view.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WithoutQuery {
    /// What it is called.
    pub query: String,
    /// What is then to be had.
    #[serde(flatten)]
    pub instead: Instead,
}

/// What is to be had instead of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Instead {
    /// Another sort order serves it as well.
    Served {
        /// Which.
        view: String,
    },
    /// Others serve it together, walked side by side: more is read for a page, and one table less is written to.
    Intersect {
        /// Which.
        views: Vec<String>,
    },
    /// With `allow_filter_scan`, conditions on these fields are checked row by row in another sort order, or in several that serve the
    /// other conditions together.
    ScanCondition {
        /// Which.
        views: Vec<String>,
        /// The fields.
        fields: Vec<String>,
    },
    /// If it also lists all values of these fields, as an OR of equalities, other partitions are merged.
    Merge {
        /// Of which sort order.
        view: String,
        /// The fields.
        fields: Vec<String>,
    },
    /// Nothing: it is refused.
    Refused,
}

/// The fewest views that a collection needs, beside those that it has, for each query to be served without rows that are
/// checked one by one. Of as few views those with the fewest without a partition are taken, then those with the most partition fields,
/// then those with the fewest columns.
///
/// ```
/// use recto_design::{design, parse_queries};
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
/// Text that is no filter or sort of the collection, a query that no one view can serve, more than [`MAX_SHAPES`] shapes
/// that nothing serves yet, more views than a collection may have.
pub fn design(collection: &Collection, asked: &[Asked]) -> Result<Design, DesignError> {
    if asked.len() > MAX_QUERIES {
        let message = format!("{MAX_QUERIES} queries are designed for at most");
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

/// Which of these queries views can be designed for, and those for which none can be: who asked them is not there to ask otherwise.
///
/// # Errors
/// The collection is not right.
pub fn servable(
    collection: &Collection,
    asked: Vec<Asked>,
) -> Result<(Vec<Asked>, Vec<Unservable>), DesignError> {
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

/// The sort orders of a collection, as the planner has them.
pub(crate) fn sort_orders(collection: &Collection) -> Result<Vec<Arc<SortOrder>>, DesignError> {
    let sort_order = |one: &recto_model::schema::SortOrder<'_>| {
        let sort_order = SortOrder::new(one, one.name());
        sort_order.map(Arc::new).map_err(|error| {
            DesignError::new(
                DesignErrorKind::Internal,
                format!("{one} is no sort order: {error}"),
            )
        })
    };
    collection.sort_orders().iter().map(sort_order).collect()
}

/// A collection with more views.
fn extended(collection: &Collection, views: &[View]) -> Collection {
    let mut collection = collection.clone();
    collection.views.extend(views.iter().cloned());
    collection
}

/// The views to add, and whether no fewer would do.
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
            "{} different queries are not served yet; views are designed for {MAX_SHAPES} at once",
            shapes.len()
        );
        return Err(DesignError::new(DesignErrorKind::Limit, message)
            .with_hint("leave out those that are seldom asked, and design for them when these are served"));
    }
    let cover = cover_of(collection, &shapes);
    if collection.views.len() + cover.groups.len() > MAX_VIEWS {
        let (has, wants) = (collection.views.len(), cover.groups.len());
        let message = format!(
            "a collection has {MAX_VIEWS} views at most: it has {has}, and these queries want {wants} more"
        );
        return Err(DesignError::new(DesignErrorKind::Limit, message));
    }
    Ok((views_of(collection, &shapes, &cover.groups), cover.is_minimal))
}

/// What a query needs that nothing serves yet; none: something does.
fn unserved_needs(
    collection: &Collection,
    existing: &[Arc<SortOrder>],
    query: &Bound<'_>,
) -> Result<Option<Needs>, DesignError> {
    match planner::plan(collection, existing, &query.query, &Wishes::default()) {
        // Several views together are what may take the place of one, and no reason not to have it.
        Ok(plans) if plans.plans[0].shape != Shape::Intersect => Ok(None),
        Err(Refusal {
            advice: Advice::FewerValues(message),
            ..
        }) => Err(unserved_by_values(query, &message)),
        Ok(_) | Err(_) => needs_of(collection, query).map(Some),
    }
}

/// What a query needs, which a view for it alone has been seen to serve.
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
        .with_hint("ask for fewer values at a time")
}

/// The fewest groups of queries with a view each.
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

/// The views of some groups, each under a name of its own, in the order of the first query of each.
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

/// Those of the views that are taken for a query, and the plan of each query over them.
///
/// # Errors
/// A query is not served: what was found does not hold.
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
                let why = format!("{refusal}; this is a mistake of Recto's");
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

/// The views that would do if the collection had none, where those are fewer than the ones that are taken for the queries. None
/// also where it cannot be said: what serves a query now may be of a kind that is not designed.
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
