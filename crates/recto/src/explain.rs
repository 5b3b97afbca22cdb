//! Explanation of a query: the plan, the reads and the expected cost of a page.

use std::collections::BTreeMap;

use recto_model::schema::{Field, OrderColumn};
use recto_model::table::Bound;
use recto_model::{Cells, Column, Slice, Type, cell, json};
use recto_plan::filter_scan::ScanCondition;
use recto_plan::plan::{Intersected, OrderTerm};
use recto_plan::query::{Constraint, RangeEnd};
use recto_plan::text::{FilterText, Literal, LiteralValue, Name, Operator, Span, Term};
use recto_plan::{Plan, Shape, Travel};
use serde_json::Value as Json;

use crate::core::CollectionCore;
use crate::paging::{
    AskedBucket, FILTER_SCAN_CHUNK_ROWS, MIN_REMOTE_CHUNK_ROWS, PageSpec, Place, first_chunks,
    known_row_count,
};
use crate::planned::Planned;
use crate::session::{
    ExplainedBaseRows, ExplainedSource, ExplainedView, Explanation, MisfitCounts, RejectedSortOrder,
    TableOrder,
};

/// Explains how `planned` answers the page that `spec` requests. `asked` has the buckets that the
/// page read; it is empty if the page was not read.
pub(crate) fn explain(
    core: &CollectionCore,
    planned: &Planned,
    spec: &PageSpec,
    asked: &[AskedBucket],
) -> Explanation {
    let plan = &planned.plan;
    let sort_order = &plan.sort_order;
    let fields = &core.definition.fields;
    let rejected = planned
        .rejected
        .iter()
        .map(|one| RejectedSortOrder {
            sort_order: one.view.clone(),
            reason: one.reason.clone(),
        })
        .collect();
    let (edge, travel) = match &spec.place {
        Place::First | Place::AroundShare(_) | Place::AtRank(_) => (None, Travel::Forward),
        Place::Last => (None, Travel::Backward),
        Place::Beyond(position, travel) => (Some(position), *travel),
        Place::Around(position) => (Some(position), Travel::Forward),
    };
    let store = &core.shared.store;
    let limits = match plan.shape {
        Shape::Intersect => first_chunks(plan, spec.size + 1, core.is_remote(), spec.budget.scanned),
        _ => vec![rows_at_once(plan, spec); plan.sources.len()],
    };
    let options = core.shared.read_options();
    let mut round_trips = Vec::new();
    let buckets_of = |source: usize| {
        let of_source = asked.iter().filter(|bucket| bucket.source == source);
        of_source.map(|bucket| bucket.number).collect()
    };
    // The requests contain bounds of buckets, which are keys of rows. If row filters hide rows from
    // the caller, do not show the requests.
    let requests_of = |slice: &Slice| {
        if planned.hides && slice.table.options().buckets.is_some() {
            Vec::new()
        } else {
            store.describe_slice(slice, &options)
        }
    };
    let sources = (0..plan.sources.len()).filter_map(|index| {
        let slice = plan.slice(index, edge, travel, limits[index])?;
        round_trips.push(store.expected_round_trips(&slice, &options));
        let view = plan.views.get(index).map(|view| &view.sort_order);
        Some(ExplainedSource {
            view: view.map(|view| view.name.clone()).unwrap_or_default(),
            partition: equalities(slice.table.partition(), &slice.partition),
            bounds: bounds(slice.table.clustering(), &slice.from, &slice.to),
            requests: requests_of(&slice),
            buckets: buckets_of(index),
        })
    });
    let mut sources: Vec<ExplainedSource> = sources.collect();
    if core.is_remote() && !plan.is_served_by_one_view() {
        tell_of_repeats(&mut sources, spec);
    }
    let round_trips = expected_round_trips(plan, spec, &round_trips);
    Explanation {
        shape: plan.shape(),
        view: sort_order.name.clone(),
        sort_order: sort_order.shown_by(),
        intersected: plan.views.iter().map(intersected).collect(),
        table: sort_order.table.name().to_owned(),
        order: order(plan),
        collate: collations(fields, plan),
        direction: if plan.reversed {
            TableOrder::Against
        } else {
            TableOrder::With
        },
        filter_scan: plan
            .filter_scan
            .iter()
            .map(|one| filter_scan(fields, one).to_string())
            .collect(),
        base_rows: plan.reads_base().then(|| base_rows(fields, plan)),
        misfits: if planned.hides {
            // Do not show how many records the view lacks, because hidden records count too.
            MisfitCounts::default()
        } else {
            misfits(plan)
        },
        row_count: known_row_count(&**store, plan).filter(|_| !planned.hides),
        expected_rows: expected_rows(plan, spec, sources.len() as u64),
        expected_round_trips: round_trips,
        sources,
        actual: None,
        rejected,
    }
}

/// Returns the number of records that the views of a plan lack because they cannot store them. For
/// several views, this is the maximum, because a record must be in each of them.
fn misfits(plan: &Plan) -> MisfitCounts {
    let others = plan.views.iter().map(|view| &view.sort_order);
    let lacks = std::iter::once(&plan.sort_order)
        .chain(others)
        .map(|one| one.lacks);
    let counts = lacks.map(|lacks| MisfitCounts {
        empty: lacks.empty,
        too_large: lacks.too_large,
    });
    counts.fold(MisfitCounts::default(), MisfitCounts::max)
}

fn intersected(view: &Intersected) -> ExplainedView {
    ExplainedView {
        view: view.sort_order.name.clone(),
        sort_order: view.sort_order.shown_by(),
        table: view.sort_order.table.name().to_owned(),
        direction: if view.reversed {
            TableOrder::Against
        } else {
            TableOrder::With
        },
    }
}

/// Maximum number of base rows that a page reads for each row of a view.
const BASE_READS_PER_ROW: u32 = 1;

fn base_rows(fields: &[Field], plan: &Plan) -> ExplainedBaseRows {
    let names = plan.looked_up.iter().map(|field| fields[*field].name.clone());
    ExplainedBaseRows {
        verified: plan.sort_order.is_verified,
        looked_up: names.collect(),
        reads_per_row: BASE_READS_PER_ROW,
    }
}

/// Returns the maximum number of rows that the page reads. A merge reads one row more than the page
/// size from each source. Sources that are read one after another together contribute one row more
/// than the page size. The base rows of the rows that the page may show are added.
fn expected_rows(plan: &Plan, spec: &PageSpec, sources: u64) -> u64 {
    let joined = |rows: u64| {
        if plan.reads_base() {
            rows * u64::from(BASE_READS_PER_ROW)
        } else {
            0
        }
    };
    if !plan.filter_scan.is_empty() {
        return spec.budget.scanned + joined(spec.budget.scanned);
    }
    let intersected = spec.budget.scanned + joined(spec.budget.scanned / sources.max(1));
    let sides = if matches!(spec.place, Place::Around(_)) {
        2
    } else {
        1
    };
    let page = (u64::from(spec.size) + 1) * sides;
    match plan.shape {
        Shape::Empty => 0,
        Shape::Merge => page * sources + joined(page),
        Shape::Scan | Shape::Concat => page + joined(page),
        Shape::Intersect => intersected,
    }
}

/// Returns the number of rows that the first read of a source requests.
fn rows_at_once(plan: &Plan, spec: &PageSpec) -> u32 {
    let page = spec.size + 1;
    if !plan.rejects_many() || plan.shape == Shape::Merge {
        return page;
    }
    rows_at_once_later(spec)
}

/// Returns the number of rows that each later read of a source requests, if the filter rejected
/// rows of the first read.
fn rows_at_once_later(spec: &PageSpec) -> u32 {
    let most = u32::try_from(spec.budget.scanned).unwrap_or(u32::MAX);
    (spec.size + 1).max(FILTER_SCAN_CHUNK_ROWS).min(most)
}

/// Adds a CQL comment to the last statement of each source. The comment says that the page repeats
/// the statement, because it checks rows one by one.
fn tell_of_repeats(sources: &mut [ExplainedSource], spec: &PageSpec) {
    let requests = sources.iter_mut().filter_map(|source| source.requests.last_mut());
    for request in requests {
        request.push_str(&format!(
            " -- repeated from the last row on, until {} records are found or {} rows are scanned",
            spec.size + 1,
            spec.budget.scanned
        ));
    }
}

/// Returns the maximum number of sequential round trips of the page. `of_sources` has the number of
/// round trips of each source. A read of base rows adds one round trip.
fn expected_round_trips(plan: &Plan, spec: &PageSpec, of_sources: &[u32]) -> u32 {
    let most = of_sources.iter().copied().max().unwrap_or(0);
    let joined = u32::from(plan.reads_base() && most > 0);
    if plan.shape == Shape::Merge {
        return most + joined;
    }
    if plan.shape == Shape::Intersect {
        // Each step of an intersection reads at least `MIN_REMOTE_CHUNK_ROWS` rows of one view, so
        // the budget of rows limits the number of steps.
        let stages = spec.budget.scanned.div_ceil(MIN_REMOTE_CHUNK_ROWS.into());
        let stages = u32::try_from(stages).unwrap_or(u32::MAX);
        return stages.saturating_mul(most + joined);
    }
    let once = of_sources.iter().fold(joined, |sum, of| sum.saturating_add(*of));
    if plan.filter_scan.is_empty() {
        return once;
    }
    let most = most + joined;
    let left = spec
        .budget
        .scanned
        .saturating_sub(rows_at_once(plan, spec).into());
    let repeats = left.div_ceil(u64::from(rows_at_once_later(spec).max(1)));
    let repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
    once.saturating_add(repeats.saturating_mul(most))
}

/// Returns the collation of each text field by which the plan sorts, by field name.
fn collations(fields: &[Field], plan: &Plan) -> BTreeMap<String, String> {
    let sort_order = &plan.sort_order;
    let collated = plan.order.iter().filter_map(|term| {
        let collation = sort_order.collation_at(term.column)?;
        let field = sort_order.sort_keys_of(term.column)?;
        Some((fields[field].name.clone(), collation.to_string()))
    });
    collated.collect()
}

fn order(plan: &Plan) -> Vec<OrderColumn> {
    let terms = plan.order.iter();
    // Omit a column that only places nulls before or after other values, because no field has its
    // order.
    let terms = terms.filter(|term| plan.sort_order.sorted_by(term.column).is_some());
    let column = |term: &OrderTerm| OrderColumn {
        field: plan.sort_order.shown_sort_of(term.column).into_owned(),
        direction: term.direction,
    };
    terms.map(column).collect()
}

/// Decodes an encoded value to a literal of filter text.
fn literal(ty: &Type, bytes: &[u8]) -> Literal {
    let value = match cell::decode(ty, bytes) {
        Ok(value) => match json::to_json(ty, &value) {
            Json::Bool(value) => LiteralValue::Boolean(value),
            Json::Number(value) => LiteralValue::Number(value.to_string()),
            Json::String(text) => LiteralValue::String(text),
            other => LiteralValue::String(other.to_string()),
        },
        Err(error) => LiteralValue::String(error.to_string()),
    };
    Literal::new(value, Span::default())
}

fn equalities(columns: &[Column], cells: &Cells) -> String {
    let pairs = columns.iter().zip(cells.iter());
    let texts = pairs.map(|(column, cell)| {
        format!(
            "{} = {}",
            column.name,
            cell.map_or_else(|| "null".to_owned(), |cell| literal(&column.ty, cell).to_string())
        )
    });
    texts.collect::<Vec<_>>().join(" AND ")
}

fn bounds(columns: &[Column], from: &Bound, to: &Bound) -> String {
    let point = |bound: &Bound| {
        let cells = bound.cells();
        if cells.is_empty() {
            return None;
        }
        let values = columns.iter().zip(cells.iter());
        let values = values.map(|(column, cell)| {
            format!(
                "{} {}",
                column.name,
                cell.map_or_else(String::new, |cell| literal(&column.ty, cell).to_string())
            )
        });
        let side = if matches!(bound, Bound::Before(_)) {
            "before"
        } else {
            "after"
        };
        Some(format!("{side} ({})", values.collect::<Vec<_>>().join(", ")))
    };
    match (point(from), point(to)) {
        (None, None) => "the whole partition".to_owned(),
        (Some(from), None) => format!("from {from}"),
        (None, Some(to)) => format!("up to {to}"),
        (Some(from), Some(to)) => format!("from {from} up to {to}"),
    }
}

/// Returns a condition that is checked on each row, as a filter with only this condition.
fn filter_scan(fields: &[Field], filter_scan: &ScanCondition) -> FilterText {
    match filter_scan {
        ScanCondition::Field { field, constraint } | ScanCondition::Edges { field, constraint } => {
            terms(&fields[*field], constraint).collect()
        }
        ScanCondition::Tuple {
            fields: indexes,
            operator,
            values,
        } => {
            let fields = indexes.iter().map(|index| &fields[*index]);
            let literals = fields.clone().zip(values);
            let tuple = Term::Tuple {
                fields: fields.map(name).collect(),
                operator: *operator,
                literals: literals.map(|(field, value)| literal(&field.ty, value)).collect(),
            };
            [tuple].into_iter().collect()
        }
    }
}

fn terms(field: &Field, constraint: &Constraint) -> impl Iterator<Item = Term> {
    let compare = |operator, value: &[u8]| Term::Compare {
        field: name(field),
        operator,
        literal: literal(&field.ty, value),
    };
    let terms = match constraint {
        Constraint::In(values) => match values.as_slice() {
            [value] => vec![compare(Operator::Equal, value)],
            values => vec![Term::AnyOf {
                field: name(field),
                literals: values.iter().map(|value| literal(&field.ty, value)).collect(),
            }],
        },
        Constraint::Range { lower, upper } => {
            let end = |end: &Option<RangeEnd>, open, closed| {
                let end = end.as_ref()?;
                Some(compare(if end.inclusive { closed } else { open }, &end.value))
            };
            let lower = end(lower, Operator::Greater, Operator::GreaterOrEqual);
            let upper = end(upper, Operator::Less, Operator::LessOrEqual);
            lower.into_iter().chain(upper).collect()
        }
    };
    terms.into_iter()
}

fn name(field: &Field) -> Name {
    Name::new(&field.name, Span::default())
}
