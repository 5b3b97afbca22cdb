//! Planner: chooses the views that serve a query, and the ranges of rows to read.

mod intersecting;

use std::borrow::Cow;
use std::sync::Arc;

use recto_api::explanation::Shape;
use recto_model::Cells;
use recto_model::collation::{COLLATION_NUMBER, Collation};
use recto_model::schema::{Collection, Derivation, Holds, Nulls, View, Width};
use recto_model::table::Direction;

use crate::cursor::{Fingerprint, QueryIdentity};
use crate::filter_scan::ScanCondition;
use crate::plan::{MAX_SOURCES, OrderTerm, Plan, Source};
use crate::query::{Constraint, Query, RangeEnd, TupleRange, compare};
use crate::refusal::{Advice, Refusal, RejectedView, SuggestedView, needed_conditions};
use crate::segments::{self, Segment};
use crate::sort_order::SortOrder;
use crate::text::Operator;

/// Parameters of planning, in addition to the query.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes<'a> {
    /// True if Recto may check conditions on each row (a filter scan) if no sort order serves them.
    pub allow_filter_scan: bool,
    /// Name of the only sort order (base table or view) that the planner may use. `None` if it may
    /// use any.
    pub view: Option<&'a str>,
    /// Indexes of the fields whose values the caller requested; `None` for all fields. If a sort
    /// order lacks requested fields, the plan reads them from the base table.
    pub fields: Option<&'a [usize]>,
}

/// Plans for a query: one for each sort order (base table or view) that serves it, and plans that
/// intersect several sort orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans {
    /// Plans, the best first; at least one. A new query uses the first plan. A query with a cursor
    /// uses the first plan that has the cursor's order of rows.
    pub plans: Vec<Arc<Plan>>,
    /// Sort orders that do not serve the query, each with the reason.
    pub refused: Vec<RejectedView>,
}

impl Plans {
    /// Returns the sort orders (base table and views) that the plan with index `taken` does not
    /// use, each with the reason.
    pub fn rejected(&self, collection: &Collection, taken: usize) -> Vec<RejectedView> {
        let best = &self.plans[taken];
        let is_other = |(index, other): &(usize, &Arc<Plan>)| {
            // If one view serves the query without a scan, do not list plans that intersect views
            // as rejected.
            *index != taken && (other.views.is_empty() || best.rejects_many())
        };
        let others = self.plans.iter().enumerate().filter(is_other);
        let others = others.map(|(index, other)| RejectedView {
            view: if other.views.is_empty() {
                other.sort_order.title()
            } else {
                intersecting::title(other)
            },
            reason: if index < taken {
                "it can serve the query, but not in the order of the cursor".into()
            } else if !other.views.is_empty() {
                "they can serve the query together, but not in the order of the view that is used".into()
            } else if other.filter_scan.len() > best.filter_scan.len() {
                "it can serve the query, but checks conditions row by row".into()
            } else if other.sources.len() > best.sources.len() {
                let (many, few) = (other.sources.len(), best.sources.len());
                format!("it can serve the query, but from {many} sources instead of {few}")
            } else if best.looked_up.is_empty() && !other.looked_up.is_empty() {
                let lacks = names(collection, &other.looked_up);
                format!("it can serve the query, but reads {lacks} from the base table row by row")
            } else {
                "it can serve the query, but an earlier view is used".into()
            },
        });
        let is_taken = |rejected: &RejectedView| {
            let mut views = best.views.iter();
            views.any(|view| view.sort_order.title() == rejected.view)
        };
        let refused = self.refused.iter().filter(|one| !is_taken(one));
        others.chain(refused.cloned()).collect()
    }

    /// Adds plans that intersect several sort orders. For a sorted query, appends them, because the
    /// caller then sorts all plans by rank. Otherwise inserts them before worse plans of the same
    /// order.
    fn add_intersecting(&mut self, plans: Vec<Plan>, is_sorted: bool) {
        for plan in plans {
            // Without a sort, insert the plan only before a worse plan with the same order of rows.
            // The order of the result must stay the same.
            let is_worse = |other: &Arc<Plan>| rank(other) > rank(&plan) && other.identity == plan.identity;
            let place = self.plans.iter().position(is_worse).filter(|_| !is_sorted);
            let place = place.unwrap_or(self.plans.len());
            self.plans.insert(place, Arc::new(plan));
        }
    }
}

/// Returns the plans for a query over the sort orders (base table and views) of a collection.
///
/// Without a sort, the first sort order that serves the query determines the order of the rows.
/// Declaring another view later therefore does not change existing results. With a sort, the plans
/// have this order:
///
/// 1. plans without conditions that are checked row by row;
/// 2. then plans with fewer sources;
/// 3. then plans that look up no fields;
/// 4. then plans of sort orders that are declared earlier.
///
/// A plan that intersects several sort orders comes after plans of single sort orders that check
/// few rows. It comes before a plan that checks conditions on many rows; without a sort, only if
/// both plans have the same order of rows.
///
/// # Errors
/// No sort order serves the query, and no combination of sort orders does. The refusal contains the
/// reason for each sort order, and advice, such as a view that would serve the query.
pub fn plan(
    collection: &Collection,
    sort_orders: &[Arc<SortOrder>],
    query: &Arc<Query>,
    wishes: &Wishes<'_>,
) -> Result<Plans, Refusal> {
    let mut plans = Plans {
        plans: Vec::new(),
        refused: Vec::new(),
    };
    let mut too_many = None;
    let mut missing_partition_fields = Vec::new();
    let mut advises_list = false;
    let mut has_pinned = false;
    let is_asked = |sort_order: &&Arc<SortOrder>| wishes.view.is_none_or(|name| sort_order.name == name);
    for sort_order in sort_orders.iter().filter(is_asked) {
        match plan_on(collection, sort_order, query, wishes) {
            Ok(plan) => plans.plans.push(Arc::new(plan)),
            Err(why) => {
                plans.refused.push(RejectedView {
                    view: sort_order.title(),
                    reason: why.reason(sort_order),
                });
                match why {
                    Unserved::Sources(reason) => {
                        too_many.get_or_insert(reason);
                    }
                    Unserved::MissingPartitionFields(columns) => {
                        // Each partition of a table without order columns has one record. Prefer to
                        // advise a table with order columns, because its partitions are lists.
                        let has_lists = !sort_order.table.clustering().is_empty();
                        let is_better = missing_partition_fields.is_empty() || (has_lists && !advises_list);
                        if is_better && serves_with_pinned(collection, sort_order, query, &columns, wishes) {
                            missing_partition_fields = sort_order.field_names(&columns);
                            advises_list = has_lists;
                        }
                    }
                    Unserved::SortOrder(_) => has_pinned |= names_partition(sort_order, query),
                }
            }
        }
    }
    let is_sorted = query.sorts().next().is_some() && !query.contradiction;
    plans.add_intersecting(
        intersecting::plans(collection, sort_orders, query, wishes),
        is_sorted,
    );
    if is_sorted {
        plans
            .plans
            .sort_by_key(|plan| (rank(plan), plan.sources.len(), !plan.looked_up.is_empty()));
    }
    if !plans.plans.is_empty() {
        return Ok(plans);
    }
    let other = wishes.view.and_then(|_| {
        let any = Wishes {
            view: None,
            ..*wishes
        };
        let plans = plan(collection, sort_orders, query, &any).ok()?;
        // Suggest only a single view, because an intersection of views has no name that a query
        // could contain.
        let best = plans.plans.iter().find(|plan| plan.views.is_empty())?;
        Some(best.sort_order.name.clone())
    });
    // The query already fixes the partition of some view. No missing field, but the query's sort or
    // another condition is the reason why no view serves it.
    if has_pinned {
        missing_partition_fields.clear();
    }
    Err(Refusal {
        rejected: plans.refused,
        missing_partition_fields,
        advice: match too_many {
            _ if other.is_some() => Advice::OtherView(other.unwrap_or_default()),
            Some(message) => Advice::FewerValues(message),
            None if sort_orders.iter().any(|one| lacks_empty(one, query).is_some()) => Advice::Scan,
            None => advice(collection, query),
        },
    })
}

/// Returns the rank of a plan by the rows that it reads and discards. A lower rank is better:
///
/// - 0: no rows
/// - 1: rows at the ends of the slices
/// - 2: rows that only some of the intersected views have
/// - 3: any rows, with an intersection of views
/// - 4: any rows, with one view, which reads more rows than an intersection
fn rank(plan: &Plan) -> u8 {
    match (plan.rejects_many(), plan.views.is_empty()) {
        (false, true) => u8::from(!plan.filter_scan.is_empty()),
        (false, false) => 2,
        (true, false) => 3,
        (true, true) => 4,
    }
}

/// Reason why a sort order (base table or view) does not serve a query.
enum Unserved {
    /// The query needs columns that the sort order lacks, or needs columns in another order. The
    /// text gives the reason.
    SortOrder(String),
    /// The query has no equality on the partition columns with these indexes.
    MissingPartitionFields(Vec<usize>),
    /// The plan would need more sources (row ranges) than [`MAX_SOURCES`] allows. The text gives
    /// the number.
    Sources(String),
}

impl Unserved {
    fn reason(&self, sort_order: &SortOrder) -> String {
        match self {
            Self::SortOrder(reason) | Self::Sources(reason) => reason.clone(),
            Self::MissingPartitionFields(columns) => {
                let names: Vec<&str> = columns.iter().map(|column| sort_order.name_of(*column)).collect();
                format!("needs {} in the filter", needed_conditions(&names))
            }
        }
    }
}

impl From<String> for Unserved {
    fn from(reason: String) -> Self {
        Self::SortOrder(reason)
    }
}

/// Returns advice for a query that no view serves. Suggests a view designed for the query only if
/// the planner confirms that it can serve the query.
fn advice(collection: &Collection, query: &Arc<Query>) -> Advice {
    let Some(suggested) = SuggestedView::new(collection, query) else {
        return Advice::Pin;
    };
    let otherwise = if suggested.is_of_all() {
        Advice::Pin
    } else {
        Advice::None
    };
    let serves = |view: &View, allow_filter_scan| {
        let wishes = Wishes {
            allow_filter_scan,
            ..Wishes::default()
        };
        let sort_order = SortOrder::new(&collection.arranged(view), &*view.name).map(Arc::new);
        sort_order.is_ok_and(|sort_order| plan_on(collection, &sort_order, query, &wishes).is_ok())
    };
    // Also try a view that skips records in which an order field is null. Such a view has no
    // columns that mark null values, so its order fields are adjacent, and it may serve more
    // queries.
    for with_filter_scan in [false, true] {
        for nulls in [Nulls::Last, Nulls::Skip] {
            let view = suggested.view(collection, nulls);
            if serves(&view, with_filter_scan) {
                let suggestion = SuggestedView::suggestion(collection, view, with_filter_scan);
                return suggestion.map_or(otherwise, |suggestion| Advice::Have(Box::new(suggestion)));
            }
        }
    }
    otherwise
}

fn plan_on(
    collection: &Collection,
    sort_order: &Arc<SortOrder>,
    query: &Arc<Query>,
    wishes: &Wishes<'_>,
) -> Result<Plan, Unserved> {
    check_records(collection, sort_order, query, wishes)?;
    let LaidOut {
        layout,
        order,
        reversed,
        filter_scan,
    } = match lay_out(collection, sort_order, query, wishes.allow_filter_scan) {
        // If conditions contradict each other, the result is empty, even if the sort order does not
        // serve the query otherwise.
        Err(_) if query.contradiction => return Ok(nothing(collection, sort_order, query)),
        laid_out => laid_out?,
    };
    let identity = identity(collection, sort_order, query, &order);
    let mut plan = Plan {
        sort_order: Arc::clone(sort_order),
        shape: Shape::Empty,
        order,
        reversed,
        sources: Vec::new(),
        views: Vec::new(),
        filter_scan,
        looked_up: looked_up(sort_order, query, wishes),
        query: Arc::clone(query),
        identity,
    };
    if query.contradiction {
        return Ok(plan);
    }
    plan.sources = layout.sources()?;
    plan.shape = shape(&plan, &layout);
    if plan.shape == Shape::Concat {
        sort_sources(&mut plan);
    }
    Ok(plan)
}

/// Returns the partition field of a view that lacks records in which this field is empty, if the
/// query allows the empty value. Such a view cannot serve the query.
fn lacks_empty(sort_order: &SortOrder, query: &Query) -> Option<usize> {
    let field = sort_order.lacks_empty_values_of()?;
    query.allows_empty(field).then_some(field)
}

/// Rejects a sort order that lacks records that may match the query. Records that are missing
/// because their key is too large do not count. They could match any query, and the operator
/// allowed the view to lack them, so pages and explanations only report them.
fn check_records(
    collection: &Collection,
    sort_order: &SortOrder,
    query: &Query,
    wishes: &Wishes<'_>,
) -> Result<(), String> {
    if let Some(field) = lacks_empty(sort_order, query) {
        return Err(format!(
            "it lacks records with an empty {}, which cannot be in it",
            collection.fields[field].name
        ));
    }
    // A query that names a view requests the records of that view, so it accepts that other records
    // are missing.
    let lacks = |field: &&usize| wishes.view.is_none() && !query.fields().any(|one| one == **field);
    match sort_order.skips_nulls_of.iter().find(lacks) {
        Some(&field) => Err(format!(
            "it lacks records without {}",
            collection.fields[field].name
        )),
        None => Ok(()),
    }
}

/// Returns the fields that the query requests or compares but the sort order lacks. Returns none if
/// the base row is read for each row anyway.
fn looked_up(sort_order: &SortOrder, query: &Query, wishes: &Wishes<'_>) -> Vec<usize> {
    if sort_order.is_verified || sort_order.is_full() {
        return Vec::new();
    }
    let lacks = |field: &usize| sort_order.column_of_field[*field].is_none();
    let is_asked = |field: &usize| wishes.fields.is_none_or(|fields| fields.contains(field));
    let lacked = (0..sort_order.column_of_field.len()).filter(lacks);
    let needed = lacked.filter(|field| is_asked(field) || query.fields().any(|one| one == *field));
    needed.collect()
}

/// Returns the names of fields, for messages.
fn names(collection: &Collection, fields: &[usize]) -> String {
    let names: Vec<&str> = fields
        .iter()
        .map(|field| &*collection.fields[*field].name)
        .collect();
    names.join(", ")
}

/// Returns a plan that reads nothing, for a query whose contradictory conditions no row can match.
fn nothing(collection: &Collection, sort_order: &Arc<SortOrder>, query: &Arc<Query>) -> Plan {
    let partition_len = sort_order.partition_len();
    let columns = (partition_len..sort_order.table.key_len()).chain(0..partition_len);
    let order: Vec<OrderTerm> = columns
        .map(|column| OrderTerm {
            column,
            direction: sort_order.direction(column),
        })
        .collect();
    Plan {
        sort_order: Arc::clone(sort_order),
        shape: Shape::Empty,
        identity: identity(collection, sort_order, query, &order),
        query: Arc::clone(query),
        order,
        reversed: false,
        sources: Vec::new(),
        views: Vec::new(),
        filter_scan: Vec::new(),
        looked_up: Vec::new(),
    }
}

/// Assignment of a query to the columns of a sort order, before the ranges of rows are computed
/// from the values of conditions.
struct LaidOut<'a> {
    layout: Layout<'a>,
    order: Vec<OrderTerm>,
    reversed: bool,
    filter_scan: Vec<ScanCondition>,
}

fn lay_out<'a>(
    collection: &Collection,
    sort_order: &'a SortOrder,
    query: &'a Query,
    allow_filter_scan: bool,
) -> Result<LaidOut<'a>, Unserved> {
    let layout = Layout::new(sort_order, query)?;
    let (order, reversed) = layout.order(collection, query)?;
    let filter_scan = layout.filter_scan(query);
    let unserved: Vec<&ScanCondition> = filter_scan.iter().filter(|one| !one.is_of_edges()).collect();
    if !unserved.is_empty() && !allow_filter_scan && !query.contradiction {
        return Err(filter_scan_reason(collection, sort_order, &unserved).into());
    }
    Ok(LaidOut {
        layout,
        order,
        reversed,
        filter_scan,
    })
}

/// Order of rows and filter scan with which a sort order serves a query. [`serves`] returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serves {
    /// Indexes of the fields of the query's total order, the most significant first.
    pub order: Vec<usize>,
    /// Indexes of the fields whose conditions Recto checks on each row.
    pub filter_scan: Vec<usize>,
}

/// Returns the order and the filter scan with which a sort order serves a query, or `None` if it
/// does not serve the query. Ignores the values in conditions, and the limit on the number of
/// sources.
pub fn serves(
    collection: &Collection,
    sort_order: &SortOrder,
    query: &Query,
    wishes: &Wishes<'_>,
) -> Option<Serves> {
    if wishes.view.is_some_and(|name| sort_order.name != name) {
        return None;
    }
    check_records(collection, sort_order, query, wishes).ok()?;
    let laid_out = lay_out(collection, sort_order, query, wishes.allow_filter_scan).ok()?;
    Some(Serves::new(sort_order, &laid_out.order, &laid_out.filter_scan))
}

/// Returns the order and the filter scan with which an intersection of several sort orders serves a
/// query. `None` if no such intersection serves the query.
pub fn serve_together(
    collection: &Collection,
    sort_orders: &[Arc<SortOrder>],
    query: &Query,
    wishes: &Wishes<'_>,
) -> Option<Serves> {
    let query = Arc::new(query.clone());
    let plans = intersecting::plans(collection, sort_orders, &query, wishes);
    let plan = plans.first()?;
    Some(Serves::new(&plan.sort_order, &plan.order, &plan.filter_scan))
}

impl Serves {
    fn new(sort_order: &SortOrder, order: &[OrderTerm], filter_scan: &[ScanCondition]) -> Self {
        Self {
            order: order
                .iter()
                .filter_map(|term| sort_order.field_of(term.column))
                .collect(),
            filter_scan: ScanCondition::checked_fields(filter_scan),
        }
    }
}

/// Returns the indexes of a sort order's partition columns that a query does not fix by `=` or by a
/// list of values.
pub(crate) fn missing_partition_fields(sort_order: &SortOrder, query: &Query) -> Vec<usize> {
    let is_pinned = |column: &usize| match sort_order.holds[*column] {
        Holds::Field(field) => matches!(query.constraint(field), Some(Constraint::In(_))),
        Holds::Derived(field, _) => query.fields().any(|one| one == field),
        Holds::Hidden => false,
    };
    let columns = 0..sort_order.partition_len();
    columns.filter(|column| !is_pinned(column)).collect()
}

/// Returns whether a query fixes every field of a sort order's partition. Returns false if the
/// partition contains no field.
fn names_partition(sort_order: &SortOrder, query: &Query) -> bool {
    let is_hidden = |column: &usize| matches!(sort_order.holds[*column], Holds::Hidden);
    !(0..sort_order.partition_len()).all(|column| is_hidden(&column))
        && missing_partition_fields(sort_order, query).iter().all(is_hidden)
}

/// Returns whether a sort order would serve a query with additional equalities on `columns`, which
/// are partition columns.
fn serves_with_pinned(
    collection: &Collection,
    sort_order: &SortOrder,
    query: &Query,
    columns: &[usize],
    wishes: &Wishes<'_>,
) -> bool {
    let mut pinned = query.clone();
    for column in columns {
        if let Holds::Field(field) | Holds::Derived(field, _) = sort_order.holds[*column] {
            pinned.constrain(field, Constraint::In(vec![Vec::new()]));
        }
    }
    let has_records_for =
        |field: &usize| wishes.view.is_some() || pinned.fields().any(|pinned| pinned == *field);
    // Do not call `check_records` here. It would reject views that lack records with an empty
    // value, because the placeholder in `pinned` is empty. The user would fix another value.
    sort_order.skips_nulls_of.iter().all(has_records_for)
        && lay_out(collection, sort_order, &pinned, wishes.allow_filter_scan).is_ok()
}

/// Assignment of a query's conditions to the columns of a sort order (base table or view).
struct Layout<'a> {
    sort_order: &'a SortOrder,
    /// For each partition column, and then for each leading clustering column with an `=` or a
    /// list: the allowed values. A hidden partition column has a placeholder.
    pinned: Vec<Cow<'a, [Vec<u8>]>>,
    /// Range constraint on the first clustering column without fixed values. `None` if that column
    /// has no range.
    range: Option<Cow<'a, Constraint>>,
    /// Tuple comparisons that ranges of rows can guarantee. Their columns are fixed columns,
    /// followed by the first clustering columns without fixed values.
    tuples: Vec<ServedTuple<'a>>,
    /// Indexes of the columns whose conditions `pinned` and `range` guarantee.
    served: Vec<usize>,
    /// Indexes of the fields that the sort order rounds. The ranges of rows can contain rows that
    /// do not satisfy the conditions on these fields.
    edges: Vec<usize>,
}

/// Tuple comparison that ranges of rows can guarantee.
struct ServedTuple<'a> {
    tuple: &'a TupleRange,
    /// Indexes of the columns of the tuple's fields. If a field has a column of sort keys, that
    /// column precedes the field's own column.
    columns: Vec<usize>,
    /// For each column, the value with which it is compared.
    values: Cow<'a, [Vec<u8>]>,
}

impl<'a> Layout<'a> {
    fn new(sort_order: &'a SortOrder, query: &'a Query) -> Result<Self, Unserved> {
        let mut layout = Self {
            sort_order,
            pinned: Vec::new(),
            range: None,
            tuples: Vec::new(),
            served: Vec::new(),
            edges: Vec::new(),
        };
        for column in 0..sort_order.table.key_len() {
            let constraint = match sort_order.holds[column] {
                Holds::Field(field) => layout.by_bytes(query, field),
                Holds::Derived(field, Derivation::Rounding(width)) => layout.rounded(query, field, width),
                Holds::Derived(field, Derivation::SortKey(_)) => {
                    let constraint = query.constraint(field);
                    constraint.map(|constraint| layout.collated(constraint, column))
                }
                Holds::Derived(field, _) if query.fields().any(|one| one == field) => {
                    // A condition on the field excludes null, so this derived column, which marks
                    // nulls, has the same cell in all matching rows: the cell for "not null".
                    let cell = sort_order.derived(column, Some(&[])).unwrap_or_default();
                    layout.pinned.push(Cow::Owned(vec![cell.into_owned()]));
                    continue;
                }
                Holds::Hidden if sort_order.is_partition(column) => {
                    layout.pinned.push(Cow::Owned(vec![Vec::new()]));
                    continue;
                }
                Holds::Derived(..) | Holds::Hidden => None,
            };
            match constraint {
                Some(Cow::Borrowed(Constraint::In(values))) => {
                    layout.pinned.push(Cow::Borrowed(values));
                    layout.served.push(column);
                }
                Some(Cow::Owned(Constraint::In(values))) => {
                    layout.pinned.push(Cow::Owned(values));
                    layout.served.push(column);
                }
                _ if sort_order.is_partition(column) => {
                    return Err(Unserved::MissingPartitionFields(missing_partition_fields(
                        sort_order, query,
                    )));
                }
                Some(range) => {
                    layout.range = Some(range);
                    layout.served.push(layout.field_column(column));
                    break;
                }
                None => break,
            }
        }
        layout.tuples = query
            .tuples
            .iter()
            .filter_map(|tuple| layout.served_tuple(tuple))
            .collect();
        Ok(layout)
    }

    /// Returns the constraint on a field as a constraint on the field's own column. Returns `None`
    /// for a range of text if the rows are not sorted by the text's collation, because matching
    /// rows can then be anywhere.
    fn by_bytes(&self, query: &'a Query, field: usize) -> Option<Cow<'a, Constraint>> {
        let constraint = query.constraint(field)?;
        let is_scattered = self.sort_order.unsorted_collation(field).is_some()
            && matches!(constraint, Constraint::Range { .. });
        (!is_scattered).then_some(Cow::Borrowed(constraint))
    }

    /// Returns the constraint on a field as a constraint on its column of sort keys (bytes that
    /// sort like the text's collation). Listed values become sort keys, in the same order. A range
    /// stays unchanged, because a later step applies it to the sort keys and the text.
    fn collated(&self, constraint: &'a Constraint, column: usize) -> Cow<'a, Constraint> {
        match constraint {
            Constraint::In(values) => {
                let key = |value: &Vec<u8>| self.sort_order.derived(column, Some(value)).map(Cow::into_owned);
                Cow::Owned(Constraint::In(values.iter().filter_map(key).collect()))
            }
            Constraint::Range { .. } => Cow::Borrowed(constraint),
        }
    }

    /// Returns whether `column` contains the sort keys of the text in the next column.
    fn has_sort_keys(&self, column: usize) -> bool {
        self.sort_order.sort_keys_of(column).is_some()
    }

    /// Returns the index of the field's own column: the next column if `column` contains sort keys,
    /// otherwise `column`.
    fn field_column(&self, column: usize) -> usize {
        column + usize::from(self.has_sort_keys(column))
    }

    /// Returns the constraint on a field as a constraint on the column of its rounded values. All
    /// rows that satisfy the original constraint satisfy the result. Rows at the ends of the result
    /// may not satisfy the original.
    fn rounded(&mut self, query: &Query, field: usize, width: Width) -> Option<Cow<'a, Constraint>> {
        let column = self.sort_order.column_of_field[field]?;
        let (rounded, is_exact) = query
            .constraint(field)?
            .rounded(Derivation::Rounding(width), self.sort_order.type_of(column));
        if !is_exact {
            self.edges.push(field);
        }
        Some(Cow::Owned(rounded))
    }

    /// Returns a tuple comparison with its columns, or `None` if ranges of rows cannot guarantee
    /// it. The columns must be fixed columns, followed by the clustering columns without fixed
    /// values from the first one on, without a gap.
    fn served_tuple(&self, tuple: &'a TupleRange) -> Option<ServedTuple<'a>> {
        let sort_order = self.sort_order;
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for (&field, value) in tuple.fields.iter().zip(&tuple.values) {
            let column = sort_order.column_of_field[field]?;
            if sort_order.unsorted_collation(field).is_some() {
                return None;
            }
            if let Some(sort) = sort_order.sort_column(field) {
                columns.push(sort);
                values.push(sort_order.derived(sort, Some(value))?.into_owned());
            }
            columns.push(column);
            values.push(value.clone());
        }
        let mut free = self.pinned.len();
        let mut in_pinned = true;
        for &column in &columns {
            if in_pinned && column < self.pinned.len() {
                continue;
            }
            in_pinned = false;
            if column != free || column >= self.sort_order.table.key_len() {
                return None;
            }
            free += 1;
        }
        let values = if values.len() == tuple.values.len() {
            Cow::Borrowed(tuple.values.as_slice())
        } else {
            Cow::Owned(values)
        };
        Some(ServedTuple {
            tuple,
            columns,
            values,
        })
    }

    /// Returns whether the query fixes the column with index `column` to more than one value.
    fn is_many(&self, column: usize) -> bool {
        self.pinned.get(column).is_some_and(|values| values.len() > 1)
    }

    fn is_one(&self, column: usize) -> bool {
        self.pinned.get(column).is_some_and(|values| values.len() == 1)
    }

    /// Returns the total order of the query's result. The flag is true if it is the reverse of the
    /// table's order.
    fn order(&self, collection: &Collection, query: &Query) -> Result<(Vec<OrderTerm>, bool), String> {
        let sort_order = self.sort_order;
        let partition_len = sort_order.partition_len();
        let mut order: Vec<OrderTerm> = Vec::new();
        // The free columns (the columns that the filter does not fix) decide the direction in which
        // slices are read. If the sort has no free column, its first column that is in the view's
        // order decides. If the sort has only some of the view's columns, append the other columns,
        // reversed if the sort reverses the view's order.
        let mut reversed_by_free = None;
        let mut reversed_by_first = None;
        let mut next_free = self.pinned.len();
        for &(field, direction) in &query.sort {
            if query.pinned(field).is_some() {
                continue;
            }
            let name = &collection.fields[field].name;
            if let Some(width) = sort_order.rounding_of(field) {
                return Err(format!(
                    "it orders by {name} rounded down to {width}, not by {name}; without the sort, view={} \
                     returns its rows in that order",
                    sort_order.name
                ));
            }
            let column = sort_order
                .sorting_column(field)
                .ok_or_else(|| format!("it does not order by {name}"))?;
            if let Some(collation) = sort_order.unsorted_collation(field) {
                return Err(format!(
                    "it orders by the bytes of {name}, not by its collation {collation}"
                ));
            }
            let against = direction != sort_order.direction(column);
            if column >= partition_len {
                reversed_by_first.get_or_insert(against);
            }
            if !self.is_many(column) {
                // Columns that are derived from the field directly precede it in the table, so sort
                // by them too.
                let is_derived =
                    |one: &usize| matches!(sort_order.holds[*one], Holds::Derived(of, _) if of == field);
                let derived: Vec<usize> = (next_free..column).take_while(is_derived).collect();
                if column != next_free + derived.len() {
                    return Err(format!(
                        "its order is {}; the sort has {name} instead of {}",
                        sort_order.shown_by(),
                        self.name_or_end(next_free)
                    ));
                }
                if *reversed_by_free.get_or_insert(against) != against {
                    return Err(format!(
                        "its order is {}; the sort has another direction at {name}",
                        sort_order.shown_by()
                    ));
                }
                next_free = column + 1;
                order.extend(derived.into_iter().map(|column| OrderTerm {
                    column,
                    direction: against_or_with(sort_order.direction(column), against),
                }));
            } else if let Some(column) = sort_order.sort_column(field) {
                order.push(OrderTerm { column, direction });
            }
            order.push(OrderTerm { column, direction });
        }
        let reversed = reversed_by_free.or(reversed_by_first).unwrap_or(false);
        let rest = (partition_len..sort_order.table.key_len()).chain(0..partition_len);
        for column in rest {
            if self.is_one(column) || order.iter().any(|term| term.column == column) {
                continue;
            }
            let direction = sort_order.direction(column);
            order.push(OrderTerm {
                column,
                direction: against_or_with(direction, reversed),
            });
        }
        Ok((order, reversed))
    }

    fn name_or_end(&self, column: usize) -> &str {
        if column < self.sort_order.table.key_len() {
            self.sort_order.shown_name_of(column)
        } else {
            "nothing"
        }
    }

    /// Returns the conditions that the ranges of rows do not guarantee.
    fn filter_scan(&self, query: &Query) -> Vec<ScanCondition> {
        let is_served = |field: usize| {
            let column = self.sort_order.sorting_column(field);
            column.is_some_and(|column| self.served.contains(&column))
        };
        let fields = query.constraints.iter().filter_map(|(field, constraint)| {
            let (field, constraint) = (*field, constraint.clone());
            if !is_served(field) {
                return Some(ScanCondition::Field { field, constraint });
            }
            self.edges
                .contains(&field)
                .then_some(ScanCondition::Edges { field, constraint })
        });
        let tuples = query
            .tuples
            .iter()
            .filter(|tuple| !self.tuples.iter().any(|served| served.tuple == *tuple))
            .map(|tuple| ScanCondition::Tuple {
                fields: tuple.fields.clone(),
                operator: tuple.operator,
                values: tuple.values.clone(),
            });
        fields.chain(tuples).collect()
    }

    /// Returns the sources: ranges of rows for each combination of fixed values.
    fn sources(&self) -> Result<Vec<Source>, Unserved> {
        let combinations: usize = self
            .pinned
            .iter()
            .enumerate()
            .filter(|(column, _)| !self.has_sort_keys(*column))
            .map(|(_, values)| values.len())
            .try_fold(1, usize::checked_mul)
            .unwrap_or(usize::MAX);
        if combinations > self.most_combinations() {
            return Err(self.too_many_sources());
        }
        let mut sources = Vec::with_capacity(combinations);
        for combination in 0..combinations {
            let values = self.combination(combination);
            let partition_len = self.sort_order.partition_len();
            // Skip an empty partition key if the table does not allow one, because stores reject
            // such reads.
            if !self.sort_order.table.allows_empty_partition() && values[0].is_empty() {
                continue;
            }
            let partition: Cells = values[..partition_len].iter().copied().map(Some).collect();
            let pinned: Cells = values[partition_len..].iter().copied().map(Some).collect();
            for segment in self.segments(&values, &pinned) {
                sources.push(Source {
                    partition: partition.clone(),
                    pinned: pinned.clone(),
                    from: segment.from,
                    to: segment.to,
                });
            }
        }
        if sources.len() > MAX_SOURCES {
            return Err(self.too_many_sources());
        }
        Ok(sources)
    }

    /// Returns the maximum number of combinations of fixed values. If the table's buckets have
    /// several shards, each shard counts as a source, because all shards of a source are read
    /// concurrently.
    fn most_combinations(&self) -> usize {
        (MAX_SOURCES / usize::from(self.shards())).max(1)
    }

    fn shards(&self) -> u8 {
        let buckets = self.sort_order.table.options().buckets;
        buckets.map_or(1, |buckets| buckets.shards.max(1))
    }

    fn too_many_sources(&self) -> Unserved {
        let lists: Vec<&str> = (0..self.pinned.len())
            .filter(|column| self.is_many(*column) && !self.has_sort_keys(*column))
            .map(|column| self.sort_order.name_of(column))
            .collect();
        let most = match self.shards() {
            1 => format!("{MAX_SOURCES} sources"),
            shards => format!("{} sources of {shards} shards each", self.most_combinations()),
        };
        Unserved::Sources(format!(
            "the values of {} result in more than {most}; use fewer values at a time",
            lists.join(", ")
        ))
    }

    /// Returns the values of the fixed columns in the combination with index `number`. The last
    /// column changes fastest. A sort key changes together with its text.
    fn combination(&self, number: usize) -> Vec<&[u8]> {
        let (mut rest, mut choice) = (number, 0);
        let mut values: Vec<&[u8]> = self
            .pinned
            .iter()
            .enumerate()
            .rev()
            .map(|(column, choices)| {
                if !self.has_sort_keys(column) {
                    choice = rest % choices.len();
                    rest /= choices.len();
                }
                choices[choice].as_slice()
            })
            .collect();
        values.reverse();
        values
    }

    /// Returns the ranges of the rows that have the fixed values `pinned` and whose next column,
    /// `column`, is between two ends. If that column contains sort keys, the text in the following
    /// column decides among equal keys.
    fn of_range(
        &self,
        column: usize,
        pinned: &Cells,
        lower: Option<&RangeEnd>,
        upper: Option<&RangeEnd>,
    ) -> Vec<Segment> {
        let table = &self.sort_order.table;
        if !self.has_sort_keys(column) {
            return vec![segments::of_range(table, pinned, lower, upper)];
        }
        let pair = |end: &RangeEnd| {
            let key = self
                .sort_order
                .derived(column, Some(&end.value))
                .unwrap_or_default();
            [key.into_owned(), end.value.clone()]
        };
        let piece = |end: Option<&RangeEnd>, with: Operator, without: Operator| {
            let Some(end) = end else {
                return vec![Segment::of_prefix(pinned)];
            };
            let operator = if end.inclusive { with } else { without };
            segments::of_tuple(table, pinned, operator, &pair(end))
        };
        // Both columns have the same direction, so each end of the range gives one contiguous
        // segment.
        let lower = piece(lower, Operator::GreaterOrEqual, Operator::Greater);
        let upper = piece(upper, Operator::LessOrEqual, Operator::Less);
        segments::intersect(&lower, &upper, table)
    }

    /// Returns the ranges of the rows that have the given fixed values and satisfy the range and
    /// the tuple comparisons.
    fn segments(&self, values: &[&[u8]], pinned: &Cells) -> Vec<Segment> {
        let table = &self.sort_order.table;
        let mut pieces = match self.range.as_deref() {
            Some(Constraint::Range { lower, upper }) => {
                self.of_range(values.len(), pinned, lower.as_ref(), upper.as_ref())
            }
            _ => vec![Segment::of_prefix(pinned)],
        };
        for served in &self.tuples {
            pieces = match self.reduce(values, served) {
                Reduced::Always => pieces,
                Reduced::Never => return Vec::new(),
                Reduced::From(first) => {
                    let of_tuple =
                        segments::of_tuple(table, pinned, served.tuple.operator, &served.values[first..]);
                    segments::intersect(&pieces, &of_tuple, table)
                }
            };
        }
        pieces.retain(|piece| !piece.is_empty(table));
        pieces
    }

    /// Evaluates a tuple comparison on a combination of fixed values, as far as these values decide
    /// it.
    fn reduce(&self, values: &[&[u8]], served: &ServedTuple<'_>) -> Reduced {
        let tuple = served.tuple;
        for (index, &column) in served.columns.iter().enumerate() {
            let Some(constant) = values.get(column) else {
                return Reduced::From(index);
            };
            let ordering = compare(self.sort_order.type_of(column), constant, &served.values[index]);
            if ordering.is_ne() {
                return if tuple.operator.holds(ordering) {
                    Reduced::Always
                } else {
                    Reduced::Never
                };
            }
        }
        if tuple.operator.holds(std::cmp::Ordering::Equal) {
            Reduced::Always
        } else {
            Reduced::Never
        }
    }
}

fn against_or_with(direction: Direction, against: bool) -> Direction {
    if against { direction.reversed() } else { direction }
}

/// Result of evaluating a tuple comparison on fixed values.
enum Reduced {
    /// Every row with the fixed values satisfies the tuple range.
    Always,
    /// No row with the fixed values satisfies the tuple range.
    Never,
    /// The fixed values equal the first values of the tuple. The tuple's values from this index on
    /// decide.
    From(usize),
}

/// Returns how the sources of a plan are combined. They can be concatenated if every column with
/// several values precedes every other column in the order. Otherwise their rows are merged.
fn shape(plan: &Plan, layout: &Layout<'_>) -> Shape {
    match plan.sources.len() {
        0 => return Shape::Empty,
        1 => return Shape::Scan,
        _ => {}
    }
    let first_free = plan.order.iter().position(|term| !layout.is_many(term.column));
    let last_many = plan.order.iter().rposition(|term| layout.is_many(term.column));
    match (first_free, last_many) {
        (Some(free), Some(many)) if free < many => Shape::Merge,
        _ => Shape::Concat,
    }
}

/// Sorts the sources of a plan into the query's order, so that they can be read one after the
/// other.
fn sort_sources(plan: &mut Plan) {
    let partition_len = plan.sort_order.partition_len();
    let sort_order = Arc::clone(&plan.sort_order);
    let order = plan.order.clone();
    let reversed = plan.reversed;
    let value = |source: &Source, column: usize| -> Option<Vec<u8>> {
        match column.checked_sub(partition_len) {
            None => source.partition.get(column).map(<[u8]>::to_vec),
            Some(index) if index < source.pinned.len() => source.pinned.get(index).map(<[u8]>::to_vec),
            Some(_) => None,
        }
    };
    plan.sources.sort_by(|left, right| {
        for term in &order {
            let (Some(one), Some(other)) = (value(left, term.column), value(right, term.column)) else {
                break;
            };
            let ordering = compare(sort_order.type_of(term.column), &one, &other);
            if ordering.is_ne() {
                return term.direction.apply(ordering);
            }
        }
        let within = left.from.compare(&right.from, &sort_order.table);
        if reversed {
            Direction::Descending.apply(within)
        } else {
            within
        }
    });
}

fn filter_scan_reason(
    collection: &Collection,
    sort_order: &SortOrder,
    filter_scan: &[&ScanCondition],
) -> String {
    let fields = filter_scan.iter().flat_map(|one| one.fields());
    let mut fields: Vec<usize> = fields.copied().collect();
    fields.dedup();
    format!(
        "its order {} does not serve the condition on {}; allow_filter_scan would check it row by row",
        sort_order.shown_by(),
        names(collection, &fields)
    )
}

/// Returns the identity to which the resume token of a scan is bound. It contains no query order,
/// because a scan reads in the order of the store.
pub fn scan_identity(collection: &Collection, sort_order: &SortOrder, query: &Query) -> QueryIdentity {
    arranged_identity(collection, sort_order, query, &[])
}

/// Returns the identity to which cursors of version 1 are bound for a plan. It contains the columns
/// of the sort order instead of the query's order.
pub fn identity_of_version_1(collection: &Collection, plan: &Plan) -> QueryIdentity {
    arranged_identity(collection, &plan.sort_order, &plan.query, &plan.order)
}

/// Returns an identity that contains the key columns of the sort order that is read.
fn arranged_identity(
    collection: &Collection,
    sort_order: &SortOrder,
    query: &Query,
    order: &[OrderTerm],
) -> QueryIdentity {
    let mut columns = String::new();
    for column in &sort_order.table.columns()[..sort_order.table.key_len()] {
        columns.push(' ');
        columns.push_str(&column.ty.to_string());
    }
    for holds in &sort_order.holds {
        match holds {
            Holds::Derived(_, Derivation::Rounding(width)) => columns.push_str(&format!(" grain {width}")),
            Holds::Derived(_, Derivation::SortKey(collation)) => {
                columns.push_str(&format!(" {}", sort_keys_text(*collation)));
            }
            _ => {}
        }
    }
    let mut parts = conditions(collection, query);
    for term in order {
        let direction = direction_text(term.direction);
        parts.push(format!("order {} {direction}", sort_order.name_of(term.column)).into_bytes());
    }
    QueryIdentity {
        collection: Fingerprint::of(&[collection.name.as_bytes()]),
        order: Fingerprint::of(&[
            sort_order.arranged_by().to_string().as_bytes(),
            columns.as_bytes(),
        ]),
        query: fingerprint(&parts),
    }
}

/// Returns the identity to which a cursor is bound. It contains the query's order, on which the
/// cursor's position depends, and nothing about the table that is read.
fn identity(
    collection: &Collection,
    sort_order: &SortOrder,
    query: &Query,
    order: &[OrderTerm],
) -> QueryIdentity {
    let terms = order.iter().map(|term| {
        let (ty, direction) = (sort_order.type_of(term.column), direction_text(term.direction));
        match sort_order.holds[term.column] {
            Holds::Field(_) => format!("{} {ty} {direction}", sort_order.name_of(term.column)),
            Holds::Derived(field, Derivation::IsNull) => {
                format!("null({}) {direction}", collection.fields[field].name)
            }
            Holds::Derived(field, Derivation::Rounding(width)) => {
                format!(
                    "grain({}, {width}) {ty} {direction}",
                    collection.fields[field].name
                )
            }
            Holds::Derived(field, Derivation::SortKey(collation)) => {
                let keys = sort_keys_text(collation);
                format!("{keys}({}) {ty} {direction}", collection.fields[field].name)
            }
            Holds::Derived(..) | Holds::Hidden => {
                format!("hidden({}) {ty} {direction}", sort_order.name_of(term.column))
            }
        }
        .into_bytes()
    });
    QueryIdentity {
        collection: Fingerprint::of(&[collection.name.as_bytes()]),
        order: fingerprint(&terms.collect::<Vec<_>>()),
        query: fingerprint(&conditions(collection, query)),
    }
}

fn fingerprint(parts: &[Vec<u8>]) -> Fingerprint {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Fingerprint::of(&parts)
}

/// Returns a text that identifies the sort keys of a collation. A cursor position is valid only for
/// the same collation and the same version of its sort keys.
fn sort_keys_text(collation: Collation) -> String {
    format!("collation {collation} {COLLATION_NUMBER}")
}

fn direction_text(direction: Direction) -> &'static str {
    match direction {
        Direction::Ascending => "asc",
        Direction::Descending => "desc",
    }
}

/// Returns the conditions of a query as byte strings for its fingerprint. If conditions contradict
/// each other, the remaining conditions depend on the order in which they were added, so the
/// fingerprint does not contain them.
fn conditions(collection: &Collection, query: &Query) -> Vec<Vec<u8>> {
    if query.contradiction {
        return vec![b"contradiction".to_vec()];
    }
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for (field, constraint) in &query.constraints {
        parts.push(collection.fields[*field].name.clone().into_bytes());
        match constraint {
            Constraint::In(values) => {
                parts.push(b"in".to_vec());
                parts.push((values.len() as u64).to_be_bytes().to_vec());
                parts.extend(values.iter().cloned());
            }
            Constraint::Range { lower, upper } => {
                for (name, end) in [(b"lower", lower), (b"upper", upper)] {
                    if let Some(end) = end {
                        parts.push(name.to_vec());
                        parts.push(vec![u8::from(end.inclusive)]);
                        parts.push(end.value.clone());
                    }
                }
            }
        }
    }
    for tuple in &query.tuples {
        parts.push(format!("tuple {} {}", tuple.operator.as_str(), tuple.fields.len()).into_bytes());
        for (field, value) in tuple.fields.iter().zip(&tuple.values) {
            parts.push(collection.fields[*field].name.clone().into_bytes());
            parts.push(value.clone());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use recto_model::schema::Schema;

    use super::*;
    use crate::bind;

    /// Collection with two views of the same columns: `mixed` sorts them in mixed directions, the
    /// other view in one direction.
    const TASKS: &str = r#"
[collection.tasks]
fields = { id = "int", team = "int", size = "int", age = "int" }
key = ["id"]
writes = "append"

[collection.tasks.view.mixed]
partition = ["team"]
nulls = "skip"
order = ["size", "-age"]

[collection.tasks.view.uniform]
partition = ["team"]
nulls = "skip"
order = ["size", "age"]
"#;

    /// Returns the sort orders that serve the query, the best first, each with its number of
    /// sources. Also returns the reasons why the planner does not use the others.
    fn planned(filter: &str, sort: &str) -> (Vec<(String, usize)>, Vec<String>) {
        let schema = Schema::parse(TASKS).expect("it is a schema");
        let collection = &schema.collections[0];
        let sort_order = |one: &recto_model::schema::SortOrder<'_>| {
            Arc::new(SortOrder::new(one, one.name()).expect("its columns are orderable"))
        };
        let sort_orders: Vec<_> = collection.sort_orders().iter().map(sort_order).collect();
        let conditions = bind::conditions(collection, filter).expect("a filter");
        let sort = bind::sort_terms(collection, sort).expect("a sort");
        let query = Arc::new(Query::new(collection, &conditions, &sort).expect("a query"));
        let plans = plan(collection, &sort_orders, &query, &Wishes::default()).expect("a plan");
        let places = plans.plans.iter();
        let places = places.map(|plan| (plan.sort_order.name.clone(), plan.sources.len()));
        let reasons = plans.rejected(collection, 0).into_iter().map(|one| one.reason);
        (places.collect(), reasons.collect())
    }

    #[test]
    fn of_those_that_serve_the_one_with_the_fewest_sources_is_taken() {
        let uniform = ("uniform".to_owned(), 1);
        let mixed = |sources| ("mixed".to_owned(), sources);
        // Only records that have both fields can match the range, so views that skip nulls lack no
        // matching record.
        let filter = "team = 1 AND (size, age) > (2, 3)";
        let (places, reasons) = planned(filter, "size");
        assert_eq!(places, [uniform.clone(), mixed(2)]);
        assert!(reasons[0].contains("from 2 sources instead of 1"), "{reasons:?}");
        // Without a sort, the first view that serves the query determines the order, whatever its
        // cost.
        let (places, _) = planned(filter, "");
        assert_eq!(places, [mixed(2), uniform]);
    }

    /// Views with the same order after the partition, or its reverse; only `by_size` has another
    /// order. The sort orders of `pairs` contain only key fields.
    const ITEMS: &str = r#"
[collection.items]
fields = { id = "int", team = "int", color = "text", size = "int", at = "int", note = "text" }
key = ["id"]
writes = "append"

[collection.items.view.by_team]
partition = ["team"]
order = ["-at"]

[collection.items.view.by_color]
partition = ["color"]
order = ["at", "-id"]
nulls = "first"

[collection.items.view.by_size]
partition = ["size"]
order = ["id"]

[collection.items.view.by_size_at]
partition = ["size"]
order = ["-at"]

[collection.pairs]
fields = { one = "int", other = "int", at = "int" }
key = ["one", "other", "at"]
partition = ["one"]
order = ["at"]
writes = "overwrite"

[collection.pairs.view.by_other]
partition = ["other"]
order = ["at"]
"#;

    /// Returns the names of the views of each plan, the best plan first. The names of intersected
    /// views are joined.
    fn together(
        collection: usize,
        filter: &str,
        sort: &str,
        wishes: &Wishes<'_>,
    ) -> Result<Vec<String>, String> {
        let schema = Schema::parse(ITEMS).expect("it is a schema");
        let collection = &schema.collections[collection];
        let sort_order = |one: &recto_model::schema::SortOrder<'_>| {
            Arc::new(SortOrder::new(one, one.name()).expect("its columns are orderable"))
        };
        let sort_orders: Vec<_> = collection.sort_orders().iter().map(sort_order).collect();
        let conditions = bind::conditions(collection, filter).expect("a filter");
        let sort = bind::sort_terms(collection, sort).expect("a sort");
        let query = Arc::new(Query::new(collection, &conditions, &sort).expect("a query"));
        let plans = plan(collection, &sort_orders, &query, wishes).map_err(|refusal| refusal.to_string())?;
        let names = |plan: &Arc<Plan>| plan.read_from().join(" & ");
        Ok(plans.plans.iter().map(names).collect())
    }

    const FREELY: Wishes<'static> = Wishes {
        allow_filter_scan: true,
        view: None,
        fields: None,
    };

    #[test]
    fn combines_views_of_one_order_or_its_reverse() {
        let alone = |filter, sort| together(0, filter, sort, &Wishes::default());
        let both = Ok(vec!["by_team & by_color".to_owned()]);
        assert_eq!(alone("team = 1 AND color = \"red\"", ""), both);
        assert_eq!(alone("team = 1 AND color = \"red\"", "at desc"), both);
        assert_eq!(alone("team = 1 AND color = \"red\"", "at, id desc"), both);
        // Views can also be intersected if the query has a range on the column by which both are
        // sorted.
        assert_eq!(
            alone("team = 1 AND color = \"red\" AND at >= 3 AND at < 9", ""),
            both
        );
        let three = alone("team = 1 AND color = \"red\" AND size = 2", "at");
        assert_eq!(three, Ok(vec!["by_team & by_color & by_size_at".to_owned()]));
        // The view `by_size` has another order, so it cannot be intersected with other views.
        assert!(alone("team = 1 AND color = \"red\"", "id").is_err());
        assert!(alone("team = 1 AND note = \"n\"", "").is_err());
        // Several values of a field give several ranges of rows, which have no common order, so an
        // intersection is impossible.
        assert!(alone("team = 1 AND (color = \"red\" OR color = \"blue\")", "").is_err());
        // A query that names a view uses that view alone.
        let named = Wishes {
            view: Some("by_team"),
            ..Wishes::default()
        };
        assert!(together(0, "team = 1 AND color = \"red\"", "", &named).is_err());
    }

    #[test]
    fn ranks_single_then_combined_then_filtering_views() {
        let filter = "team = 1 AND color = \"red\"";
        let plans = together(0, filter, "at desc", &FREELY).expect("plans");
        assert_eq!(plans, ["by_team & by_color", "by_team", "by_color"]);
        let plans = together(0, filter, "", &FREELY).expect("plans");
        assert_eq!(plans, ["by_team & by_color", "by_team", "by_color"]);
        let one = together(0, "team = 1", "at desc", &FREELY).expect("plans");
        assert_eq!(one, ["by_team"]);
        // Without a sort, the first view determines the order of the rows, although conditions are
        // checked on each row.
        let first = together(0, "size = 1 AND team = 2", "", &FREELY).expect("plans");
        assert_eq!(first[0], "by_team & by_size_at");
        // Conditions that no view serves are checked on the records that all intersected views
        // contain.
        let more = format!("{filter} AND note = \"n\"");
        for sort in ["at desc", ""] {
            let plans = together(0, &more, sort, &FREELY).expect("plans");
            assert_eq!(plans, ["by_team & by_color", "by_team", "by_color"], "{sort}");
        }
        let contradiction = together(
            0,
            "team = 1 AND color = \"red\" AND at > 2 AND at < 1",
            "",
            &FREELY,
        );
        assert!(contradiction.is_ok_and(|plans| !plans.iter().any(|plan| plan.contains('&'))));
    }

    #[test]
    fn a_key_field_that_another_view_pins_is_no_part_of_the_order() {
        let both = together(1, "one = 1 AND other = 2", "at", &Wishes::default());
        assert_eq!(both, Ok(vec!["primary & by_other".to_owned()]));
    }

    /// Flights by carrier, a view of all flights, and views by origin.
    const FLIGHTS: &str = r#"
[collection.flights]
fields = { carrier = "text", at = "int", flight = "int", origin = "text", dest = "text", distance = "int" }
key = ["carrier", "at", "flight"]
partition = ["carrier"]
order = ["-at"]
writes = "append"

[collection.flights.view.newest]
order = ["-at"]
bucket = { target = "10MB" }

[collection.flights.view.by_origin]
partition = ["origin", "dest"]
order = ["-at"]
"#;

    #[test]
    fn names_missing_fields_only_if_they_help() {
        let schema = Schema::parse(FLIGHTS).expect("it is a schema");
        let collection = &schema.collections[0];
        let sort_order = |one: &recto_model::schema::SortOrder<'_>| {
            Arc::new(SortOrder::new(one, one.name()).expect("its columns are orderable"))
        };
        let sort_orders: Vec<_> = collection.sort_orders().iter().map(sort_order).collect();
        let refused = |view: Option<&str>, filter: &str, sort: &str| {
            let conditions = bind::conditions(collection, filter).expect("a filter");
            let sort = bind::sort_terms(collection, sort).expect("a sort");
            let query = Arc::new(Query::new(collection, &conditions, &sort).expect("a query"));
            let wishes = Wishes {
                view,
                ..Wishes::default()
            };
            plan(collection, &sort_orders, &query, &wishes).expect_err("it is rejected")
        };
        for (view, filter, sort, missing_partition_fields) in [
            // Queries that lack only the fields of a partition.
            (Some("primary"), "", "", &["carrier"][..]),
            (Some("primary"), "at > 1", "at", &["carrier"]),
            (None, "flight = 1 AND at = 7", "flight, at", &["carrier"]),
            (None, "origin = \"JFK\"", "", &["dest"]),
            (Some("by_origin"), "dest > \"L\"", "", &["origin", "dest"]),
            // Queries that fix a partition, but have a sort or a condition that no view serves.
            (None, "carrier = \"AA\"", "distance", &[]),
            (None, "carrier = \"AA\" AND distance > 5", "", &[]),
            (None, "origin = \"JFK\" AND dest = \"LAX\"", "distance", &[]),
            // Queries that no view would serve even with a fixed carrier or origin.
            (None, "", "distance", &[]),
            (None, "distance > 2000", "", &[]),
            (None, "dest = \"LAX\" AND distance > 2000", "", &[]),
        ] {
            assert_eq!(
                refused(view, filter, sort).missing_partition_fields,
                missing_partition_fields,
                "{view:?} {filter} by {sort}"
            );
        }
        let by_distance = refused(None, "dest = \"LAX\"", "distance");
        assert!(matches!(&by_distance.advice, Advice::Have(suggestion)
            if suggestion.declaration().contains("order = [\"distance\"]")));
    }
}
