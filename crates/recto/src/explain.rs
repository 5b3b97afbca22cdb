//! Explaining how a query is answered.

use recto_model::table::{Bound, Direction};
use recto_model::{Cells, Column, cell, json};
use recto_plan::query::Constraint;
use recto_plan::residual::Residual;
use recto_plan::text::quote;
use recto_plan::{Plan, Shape, Travel};

use crate::core::CollectionCore;
use crate::paging::{PageSpec, Place};
use crate::query::Planned;
use crate::session::{ExplainedSource, Explanation};

/// A plan's shape, and whether rows are checked one by one.
pub(crate) fn shape(plan: &Plan) -> String {
    let shape = plan.shape.name();
    if plan.residual.is_empty() {
        shape.to_owned()
    } else {
        format!("{shape} + residual")
    }
}

/// How the page of `spec` is answered by `planned`.
pub(crate) fn explain(core: &CollectionCore, planned: &Planned, spec: &PageSpec) -> Explanation {
    let plan = &planned.plan;
    let arrangement = &plan.arrangement;
    let rejected = planned
        .rejected
        .iter()
        .map(|one| (one.view.clone(), one.reason.clone()))
        .collect();
    let (edge, travel) = match &spec.place {
        Place::First => (None, Travel::Forward),
        Place::Last => (None, Travel::Backward),
        Place::Beyond(position, travel) => (Some(position), *travel),
        Place::Around(position) => (Some(position), Travel::Forward),
    };
    let limit = spec.size + 1;
    let sources = (0..plan.sources.len()).filter_map(|index| {
        let slice = plan.slice(index, edge, travel, limit)?;
        Some(ExplainedSource {
            partition: equalities(arrangement.table.partition(), &slice.partition),
            bounds: bounds(arrangement.table.clustering(), &slice.from, &slice.to),
            requests: core.shared.store.describe_slice(&slice),
        })
    });
    let sources: Vec<ExplainedSource> = sources.collect();
    let round_trips = expected_round_trips(core, plan, &sources);
    Explanation {
        shape: shape(plan),
        arrangement: arrangement.describe(),
        table: arrangement.table.name().to_owned(),
        order: order_text(plan),
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
        actual_rows_returned: None,
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

fn expected_round_trips(core: &CollectionCore, plan: &Plan, sources: &[ExplainedSource]) -> u32 {
    if !core.shared.store.limits().remote {
        return 0;
    }
    let of_source = |source: &ExplainedSource| source.requests.len() as u32;
    match plan.shape {
        Shape::Concat => sources.iter().map(of_source).sum(),
        _ => sources.iter().map(of_source).max().unwrap_or(0),
    }
}

fn order_text(plan: &Plan) -> String {
    let terms = plan.order.iter().map(|term| {
        let direction = if term.direction == Direction::Ascending {
            "asc"
        } else {
            "desc"
        };
        format!("{} {direction}", plan.arrangement.name_of(term.column))
    });
    terms.collect::<Vec<_>>().join(", ")
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
