//! Plans that intersect several views, for queries that no view serves alone. The result is the set
//! of records that are in the ranges of all intersected views. If filter scans are allowed, Recto
//! checks conditions that no view serves on each row.
//!
//! In the rows that are read from a view, the leading columns that the query fixes by `=` are
//! constant. The rows are therefore sorted by the columns that follow. Several views can have the
//! same following columns, or exact reverses. A record then has the same position in each of these
//! views, so they can be read concurrently and merged.

use std::sync::Arc;

use recto_api::explanation::Shape;
use recto_model::schema::{Collection, Holds};

use super::{Layout, check_records, identity};
use crate::cursor::QueryIdentity;
use crate::filter_scan::ScanCondition;
use crate::plan::{Intersected, MAX_INTERSECTED, OrderTerm, Plan, Source};
use crate::planner::Wishes;
use crate::query::Query;
use crate::sort_order::SortOrder;

/// Returns plans that intersect several sort orders (base table and views). There is one plan for
/// each order of rows in which several sort orders serve the query together. A plan has the order
/// of its first sort order. No plan is returned:
///
/// - for an order in which one sort order alone serves all conditions;
/// - if the query names a view.
pub(super) fn plans(
    collection: &Collection,
    sort_orders: &[Arc<SortOrder>],
    query: &Arc<Query>,
    wishes: &Wishes<'_>,
) -> Vec<Plan> {
    let conditions = conditions(query);
    if wishes.view.is_some() || query.contradiction || conditions.len() < 2 || sort_orders.len() < 2 {
        return Vec::new();
    }
    let members = sort_orders.iter();
    let members = members.filter_map(|one| Member::new(collection, one, query, wishes));
    let groups = groups(collection, query, members).into_iter();
    let plans = groups.filter_map(|group| {
        let cover = cover(group.members, conditions.clone(), wishes.allow_filter_scan)?;
        Some(plan(collection, group.identity, cover, query, wishes))
    });
    plans.collect()
}

/// Returns all conditions of a query, in the form that a filter scan checks.
fn conditions(query: &Query) -> Vec<ScanCondition> {
    let fields = query
        .constraints
        .iter()
        .map(|(field, constraint)| ScanCondition::Field {
            field: *field,
            constraint: constraint.clone(),
        });
    let tuples = query.tuples.iter().map(|tuple| ScanCondition::Tuple {
        fields: tuple.fields.clone(),
        operator: tuple.operator,
        values: tuple.values.clone(),
    });
    fields.chain(tuples).collect()
}

/// Sort order (base table or view) that can be intersected with others to serve a query.
struct Member {
    view: Intersected,
    terms: Vec<OrderTerm>,
    /// Range of the sort order's rows to read. `None` if no row can match.
    source: Option<Source>,
}

impl Member {
    /// Returns the member for a sort order, or `None` if the sort order cannot be intersected with
    /// others. The reasons for `None` are: it lacks records, it does not serve the query's
    /// partition or sort, or the query needs several of its ranges, which have no common order.
    fn new(
        collection: &Collection,
        sort_order: &Arc<SortOrder>,
        query: &Query,
        wishes: &Wishes<'_>,
    ) -> Option<Self> {
        check_records(collection, sort_order, query, wishes).ok()?;
        let layout = Layout::new(sort_order, query).ok()?;
        let (terms, reversed) = layout.order(collection, query).ok()?;
        if layout.pinned.iter().any(|values| values.len() > 1) {
            return None;
        }
        let mut sources = layout.sources().ok()?;
        let source = sources.pop();
        if !sources.is_empty() {
            return None;
        }
        let free = layout.pinned.len()..sort_order.table.key_len();
        let constant = |column: usize| Some((column, constant(sort_order, query, column)?));
        let constants: Vec<(usize, Vec<u8>)> = free.clone().filter_map(constant).collect();
        let is_constant = |column: usize| constants.iter().any(|(one, _)| *one == column);
        let terms: Vec<OrderTerm> = terms
            .into_iter()
            .filter(|term| !is_constant(term.column))
            .collect();
        // Views are intersected by positions in the same columns. The columns that the query does
        // not fix must therefore be exactly the columns of the order.
        let sorted_by = terms.iter().map(|term| term.column);
        if !sorted_by.eq(free.filter(|column| !is_constant(*column))) {
            return None;
        }
        let view = Intersected {
            sort_order: Arc::clone(sort_order),
            columns: terms.iter().map(|term| term.column).collect(),
            reversed,
            constants,
            unserved: layout.filter_scan(query),
            as_first: None,
        };
        Some(Self { view, terms, source })
    }

    /// Returns the member with the reverse order: its view is read in the opposite direction.
    fn turned(mut self) -> Self {
        self.view.reversed = !self.view.reversed;
        for term in &mut self.terms {
            term.direction = term.direction.reversed();
        }
        self
    }

    fn leaves(&self, condition: &ScanCondition) -> bool {
        self.view.unserved.contains(condition)
    }
}

/// Returns the cell of a key column that is equal in all matching rows, because the query fixes the
/// column's field by `=`. Otherwise returns `None`.
fn constant(sort_order: &SortOrder, query: &Query, column: usize) -> Option<Vec<u8>> {
    match sort_order.holds[column] {
        Holds::Field(field) => query.pinned(field).map(<[u8]>::to_vec),
        Holds::Derived(field, _) => {
            let cell = sort_order.derived(column, query.pinned(field))?;
            query.pinned(field).map(|_| cell.into_owned())
        }
        Holds::Hidden => None,
    }
}

/// Members (sort orders) that have the same order of records, and can therefore be intersected.
struct Group {
    identity: QueryIdentity,
    members: Vec<Member>,
}

/// Groups members (sort orders) by the order of their records. The first member of a group
/// determines its order. If the query has no sort, a member with the exact reverse order also joins
/// the group, and is read backward.
fn groups(collection: &Collection, query: &Query, members: impl Iterator<Item = Member>) -> Vec<Group> {
    let is_sorted = query.sorts().next().is_some();
    let identity_of = |member: &Member| identity(collection, &member.view.sort_order, query, &member.terms);
    let mut groups: Vec<Group> = Vec::new();
    for member in members {
        let own = identity_of(&member);
        if let Some(group) = groups.iter_mut().find(|group| group.identity == own) {
            group.members.push(member);
            continue;
        }
        let turned = member.turned();
        let reverse = identity_of(&turned);
        match groups
            .iter_mut()
            .find(|group| !is_sorted && group.identity == reverse)
        {
            Some(group) => group.members.push(turned),
            None => groups.push(Group {
                identity: own,
                members: vec![turned.turned()],
            }),
        }
    }
    groups
}

/// Members (sort orders) that serve a query by an intersection.
struct Cover {
    taken: Vec<Member>,
    /// Conditions that none of the chosen members serves, so that a filter scan must check them.
    left: Vec<ScanCondition>,
}

/// Chooses members (sort orders) that together serve all conditions: at least two, and
/// approximately the minimum number. Each step chooses the member that serves the largest number of
/// remaining conditions; among equal members, the first. A condition that a member serves by
/// rounded values counts as served. If `may_be_left` is true, conditions may remain that no chosen
/// member serves.
fn cover(mut members: Vec<Member>, mut left: Vec<ScanCondition>, may_be_left: bool) -> Option<Cover> {
    let mut taken = Vec::new();
    while !left.is_empty() && taken.len() < MAX_INTERSECTED {
        let leaves = |member: &Member| left.iter().filter(|one| member.leaves(one)).count();
        let best = (0..members.len()).min_by_key(|index| leaves(&members[*index]));
        let Some(best) = best.filter(|best| leaves(&members[*best]) < left.len()) else {
            break;
        };
        let member = members.remove(best);
        left.retain(|one| member.leaves(one));
        taken.push(member);
    }
    let is_served = left.is_empty() || may_be_left;
    (is_served && taken.len() > 1).then_some(Cover { taken, left })
}

/// Moves the best member (sort order) to the front, because its rows become the rows of the page. A
/// verified member is best: its base row decides whether the record is shown. Among equals, a
/// member that has all required fields is better.
fn lead_first(mut members: Vec<Member>, left: &[ScanCondition], wishes: &Wishes<'_>) -> Vec<Member> {
    let is_worse = |index: &usize| {
        let sort_order = &members[*index].view.sort_order;
        (
            !sort_order.is_verified,
            !lacked(sort_order, left, wishes).is_empty(),
        )
    };
    if let Some(lead) = (0..members.len()).min_by_key(is_worse) {
        members[..=lead].rotate_right(1);
    }
    members
}

/// Returns the fields that are requested or needed by the filter scan, but that a sort order lacks.
/// Returns none if the base row is read for each row anyway.
fn lacked(sort_order: &SortOrder, checked: &[ScanCondition], wishes: &Wishes<'_>) -> Vec<usize> {
    if sort_order.is_verified {
        return Vec::new();
    }
    let fields = 0..sort_order.column_of_field.len();
    let is_needed = |field: &usize| {
        wishes.fields.is_none_or(|fields| fields.contains(field))
            || checked.iter().any(|one| one.fields().contains(field))
    };
    let lacks = |field: &usize| sort_order.column_of_field[*field].is_none();
    fields.filter(|field| lacks(field) && is_needed(field)).collect()
}

/// Returns the conditions that all members serve only by rounded values, so that rows must be
/// checked.
fn rounded(members: &[Member]) -> Vec<ScanCondition> {
    let mut rounded: Vec<ScanCondition> = Vec::new();
    for one in members.iter().flat_map(|member| &member.view.unserved) {
        let is_checked = |member: &Member| {
            let mut unserved = member.view.unserved.iter();
            unserved.any(|other| other.fields() == one.fields())
        };
        if one.is_of_edges() && !rounded.contains(one) && members.iter().all(is_checked) {
            rounded.push(one.clone());
        }
    }
    rounded
}

/// Returns, for each column of the view `first`, the index of the same column in `view`. `None` if
/// `view` lacks a column of `first`, or lacks a field that is needed to check a row of `view`
/// alone.
fn as_first(view: &Intersected, first: &SortOrder) -> Option<Vec<usize>> {
    let mut judged = view.unserved.iter().flat_map(ScanCondition::fields);
    if !judged.all(|field| view.sort_order.column_of_field[*field].is_some()) {
        return None;
    }
    let columns = view.sort_order.table.columns();
    let place = |name: &str| columns.iter().position(|column| column.name == name);
    let wanted = first.table.columns().iter();
    wanted.map(|column| place(&column.name)).collect()
}

fn plan(
    collection: &Collection,
    identity: QueryIdentity,
    cover: Cover,
    query: &Arc<Query>,
    wishes: &Wishes<'_>,
) -> Plan {
    let members = lead_first(cover.taken, &cover.left, wishes);
    let mut filter_scan = rounded(&members);
    filter_scan.extend(cover.left);
    let lead = &members[0];
    let mut plan = Plan {
        sort_order: Arc::clone(&lead.view.sort_order),
        shape: Shape::Intersect,
        order: lead.terms.clone(),
        reversed: lead.view.reversed,
        sources: Vec::with_capacity(members.len()),
        views: Vec::with_capacity(members.len()),
        looked_up: lacked(&lead.view.sort_order, &filter_scan, wishes),
        filter_scan,
        query: Arc::clone(query),
        identity,
    };
    debug_assert_eq!(
        plan.identity,
        super::identity(collection, &plan.sort_order, query, &plan.order)
    );
    for mut member in members {
        member.view.as_first = as_first(&member.view, &plan.sort_order);
        if let Some(source) = member.source {
            plan.sources.push(source);
        } else {
            plan.shape = Shape::Empty;
        }
        plan.views.push(member.view);
    }
    if plan.shape == Shape::Empty {
        plan.sources.clear();
        plan.views.clear();
    }
    plan
}

/// Returns the name of a plan that intersects several views, for the list of rejected views.
pub(super) fn title(plan: &Plan) -> String {
    format!("views {} together", plan.read_from().join(", "))
}
