//! Explaining how a query is answered.

use recto_model::schema::OrderColumn;
use recto_model::table::Bound;
use recto_model::{Cells, Column, cell, json};
use recto_plan::plan::OrderTerm;
use recto_plan::query::Constraint;
use recto_plan::residual::Residual;
use recto_plan::text::quote;
use recto_plan::{Plan, Shape, Travel};

use crate::core::CollectionCore;
use crate::paging::{PageSpec, Place, RESIDUAL_CHUNK_ROWS};
use crate::planned::Planned;
use crate::session::{ExplainedSource, Explanation, RejectedArrangement};

/// How the page of `spec` is answered by `planned`.
pub(crate) fn explain(core: &CollectionCore, planned: &Planned, spec: &PageSpec) -> Explanation {
    let plan = &planned.plan;
    let arrangement = &plan.arrangement;
    let rejected = planned
        .rejected
        .iter()
        .map(|one| RejectedArrangement {
            arrangement: one.view.clone(),
            reason: one.reason.clone(),
        })
        .collect();
    let (edge, travel) = match &spec.place {
        Place::First => (None, Travel::Forward),
        Place::Last => (None, Travel::Backward),
        Place::Beyond(position, travel) => (Some(position), *travel),
        Place::Around(position) => (Some(position), Travel::Forward),
    };
    let store = &core.shared.store;
    let limit = rows_at_once(plan, spec);
    let mut round_trips = Vec::new();
    let sources = (0..plan.sources.len()).filter_map(|index| {
        let slice = plan.slice(index, edge, travel, limit)?;
        round_trips.push(store.expected_round_trips(&slice));
        Some(ExplainedSource {
            partition: equalities(arrangement.table.partition(), &slice.partition),
            bounds: bounds(arrangement.table.clustering(), &slice.from, &slice.to),
            requests: store.describe_slice(&slice),
        })
    });
    let mut sources: Vec<ExplainedSource> = sources.collect();
    if store.limits().remote && !plan.residual.is_empty() {
        tell_of_repeats(&mut sources, spec);
    }
    let round_trips = expected_round_trips(plan, spec, &round_trips);
    Explanation {
        shape: planned.shape(),
        view: arrangement.name.clone(),
        arrangement: arrangement.describe(),
        table: arrangement.table.name().to_owned(),
        order: order(plan),
        direction: if plan.reversed {
            "against".into()
        } else {
            "with".into()
        },
        residual: plan
            .residual
            .iter()
            .map(|residual| residual_text(plan, residual))
            .collect(),
        expected_rows: expected_rows(plan, spec, sources.len() as u64),
        expected_round_trips: round_trips,
        sources,
        actual: None,
        rejected,
    }
}

/// The most rows the page reads: one more than its size of each source, and of one source after the
/// other where they follow one another.
fn expected_rows(plan: &Plan, spec: &PageSpec, sources: u64) -> u64 {
    if !plan.residual.is_empty() {
        return spec.budget.scanned;
    }
    let page = u64::from(spec.size) + 1;
    let sides = if matches!(spec.place, Place::Around(_)) {
        2
    } else {
        1
    };
    match plan.shape {
        Shape::Empty => 0,
        Shape::Merge => page * sources * sides,
        Shape::Scan | Shape::Concat => page * sides,
    }
}

/// How many rows are asked of a source at once, at first.
fn rows_at_once(plan: &Plan, spec: &PageSpec) -> u32 {
    let page = spec.size + 1;
    if plan.residual.is_empty() || plan.shape == Shape::Merge {
        return page;
    }
    let most = u32::try_from(spec.budget.scanned).unwrap_or(u32::MAX);
    page.max(RESIDUAL_CHUNK_ROWS).min(most)
}

/// Says, as a comment of CQL, that a statement is sent again and again where rows are checked one by one.
fn tell_of_repeats(sources: &mut [ExplainedSource], spec: &PageSpec) {
    let requests = sources.iter_mut().filter_map(|source| source.requests.last_mut());
    for request in requests {
        request.push_str(&format!(
            " -- again from the last row read on, until {} records are found or {} rows looked at",
            spec.size + 1,
            spec.budget.scanned
        ));
    }
}

/// The most round trips one after the other, if each source takes so many at once.
fn expected_round_trips(plan: &Plan, spec: &PageSpec, of_sources: &[u32]) -> u32 {
    let most = of_sources.iter().copied().max().unwrap_or(0);
    if plan.shape == Shape::Merge {
        return most;
    }
    let once = of_sources.iter().fold(0_u32, |sum, of| sum.saturating_add(*of));
    if plan.residual.is_empty() {
        return once;
    }
    let repeats = spec
        .budget
        .scanned
        .div_ceil(u64::from(rows_at_once(plan, spec).max(1)));
    let repeats = u32::try_from(repeats.saturating_sub(1)).unwrap_or(u32::MAX);
    once.saturating_add(repeats.saturating_mul(most))
}

fn order(plan: &Plan) -> Vec<OrderColumn> {
    let terms = plan.order.iter();
    // Where nulls stand is no field's order.
    let terms = terms.filter(|term| plan.arrangement.field_of(term.column).is_some());
    let column = |term: &OrderTerm| OrderColumn {
        field: plan.arrangement.name_of(term.column).to_owned(),
        direction: term.direction,
    };
    terms.map(column).collect()
}

fn literal(column: &Column, bytes: &[u8]) -> String {
    match cell::decode(&column.ty, bytes) {
        Ok(value) => match json::to_json(&column.ty, &value) {
            serde_json::Value::String(text) => quote(&text),
            other => other.to_string(),
        },
        Err(_) => "?".to_owned(),
    }
}

fn equalities(columns: &[Column], cells: &Cells) -> String {
    let pairs = columns.iter().zip(cells.iter());
    let texts = pairs.map(|(column, cell)| {
        format!(
            "{} = {}",
            column.name,
            cell.map_or_else(|| "null".to_owned(), |cell| literal(column, cell))
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
                cell.map_or_else(String::new, |cell| literal(column, cell))
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

fn residual_text(plan: &Plan, residual: &Residual) -> String {
    let columns = plan.arrangement.table.columns();
    match residual {
        Residual::Column { column, constraint } => constraint_text(&columns[*column], constraint),
        Residual::Tuple {
            columns: indexes,
            operator,
            values,
        } => {
            let names: Vec<&str> = indexes
                .iter()
                .map(|index| columns[*index].name.as_str())
                .collect();
            let literals = indexes
                .iter()
                .zip(values)
                .map(|(index, value)| literal(&columns[*index], value));
            format!(
                "({}) {operator} ({})",
                names.join(", "),
                literals.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

fn constraint_text(column: &Column, constraint: &Constraint) -> String {
    let name = &column.name;
    match constraint {
        Constraint::In(values) => {
            let texts = values
                .iter()
                .map(|value| format!("{name} = {}", literal(column, value)));
            texts.collect::<Vec<_>>().join(" OR ")
        }
        Constraint::Range { lower, upper } => {
            let equal = |inclusive| if inclusive { "=" } else { "" };
            let lower = lower
                .as_ref()
                .map(|end| format!("{name} >{} {}", equal(end.inclusive), literal(column, &end.value)));
            let upper = upper
                .as_ref()
                .map(|end| format!("{name} <{} {}", equal(end.inclusive), literal(column, &end.value)));
            lower.into_iter().chain(upper).collect::<Vec<_>>().join(" AND ")
        }
    }
}
