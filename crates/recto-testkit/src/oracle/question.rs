//! Query of a collection (filter and sort order), as plain data.

use recto_model::schema::Collection;
use recto_model::table::Direction;
use recto_model::{Type, Value, json};

use super::order::same;
use super::{Oracle, Row};

/// Operator that compares a field with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Each variant has the name of its comparison.
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the operator as written in a filter text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Condition of a filter. `field` is the index (from 0) of a field of the collection.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // The names of the fields describe them.
pub enum Condition {
    /// Compares a field with a value.
    Compare {
        field: usize,
        comparison: Comparison,
        value: Value,
    },
    /// Requires one of these values for a field.
    AnyOf { field: usize, values: Vec<Value> },
    /// Requires that a text field starts with a prefix.
    StartsWith { field: usize, prefix: String },
    /// Compares several fields with as many values, as a tuple: the first difference decides.
    Tuple {
        fields: Vec<usize>,
        comparison: Comparison,
        values: Vec<Value>,
    },
}

impl Condition {
    /// Returns whether a row satisfies the condition. A null satisfies no condition.
    pub fn holds(&self, oracle: &Oracle, row: &Row) -> bool {
        let ty = |field: &usize| &oracle.collection().fields[*field].ty;
        match self {
            Self::Compare {
                field,
                comparison: Comparison::Equal,
                value,
            } => row[*field]
                .as_ref()
                .is_some_and(|found| same(ty(field), found, value)),
            Self::Compare {
                field,
                comparison,
                value,
            } => row[*field]
                .as_ref()
                .is_some_and(|found| comparison.holds(oracle.compare(*field, found, value))),
            Self::AnyOf { field, values } => row[*field]
                .as_ref()
                .is_some_and(|found| values.iter().any(|value| same(ty(field), found, value))),
            Self::StartsWith { field, prefix } => match &row[*field] {
                Some(Value::Text(text) | Value::Ascii(text)) => text.starts_with(prefix.as_str()),
                _ => false,
            },
            Self::Tuple {
                fields,
                comparison,
                values,
            } => {
                for (field, value) in fields.iter().zip(values) {
                    let Some(found) = &row[*field] else { return false };
                    let ordering = oracle.compare(*field, found, value);
                    if ordering.is_ne() {
                        return comparison.holds(ordering);
                    }
                }
                comparison.holds(std::cmp::Ordering::Equal)
            }
        }
    }

    /// Returns the values that this condition lists for a field: those of an equality, or of an OR
    /// of equalities; `None`: it lists none.
    pub(super) fn listed(&self, field: usize) -> Option<Vec<Value>> {
        match self {
            Self::Compare {
                field: own,
                comparison: Comparison::Equal,
                value,
            } if *own == field => Some(vec![value.clone()]),
            Self::AnyOf { field: own, values } if *own == field => Some(values.clone()),
            Self::Tuple {
                fields,
                comparison: Comparison::Equal,
                values,
            } => {
                let index = fields.iter().position(|own| *own == field)?;
                Some(vec![values[index].clone()])
            }
            _ => None,
        }
    }

    /// Returns whether the condition concerns this field, and no other.
    pub(super) fn is_only_on(&self, field: usize) -> bool {
        match self {
            Self::Compare { field: own, .. }
            | Self::AnyOf { field: own, .. }
            | Self::StartsWith { field: own, .. } => *own == field,
            Self::Tuple { fields, .. } => fields == &[field],
        }
    }

    fn text(&self, collection: &Collection) -> String {
        let name = |field: &usize| collection.fields[*field].name.clone();
        let literal = |field: &usize, value: &Value| literal(&collection.fields[*field].ty, value);
        match self {
            Self::Compare {
                field,
                comparison,
                value,
            } => {
                format!(
                    "{} {} {}",
                    name(field),
                    comparison.as_str(),
                    literal(field, value)
                )
            }
            Self::AnyOf { field, values } => {
                let equalities: Vec<String> = values
                    .iter()
                    .map(|value| format!("{} = {}", name(field), literal(field, value)))
                    .collect();
                format!("({})", equalities.join(" OR "))
            }
            Self::StartsWith { field, prefix } => format!("startsWith({}, {})", name(field), quoted(prefix)),
            Self::Tuple {
                fields,
                comparison,
                values,
            } => {
                let names: Vec<String> = fields.iter().map(name).collect();
                let literals: Vec<String> = fields
                    .iter()
                    .zip(values)
                    .map(|(field, value)| literal(field, value))
                    .collect();
                format!(
                    "({}) {} ({})",
                    names.join(", "),
                    comparison.as_str(),
                    literals.join(", ")
                )
            }
        }
    }
}

/// Query of a collection: a filter and a sort order.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Conditions of the filter, all of which must hold.
    pub conditions: Vec<Condition>,
    /// Indexes (from 0) of the fields to sort by, with directions. Empty: the order of the
    /// collection itself.
    pub sort: Vec<(usize, Direction)>,
    /// True if the query may scan rows and filter them, because the sort order cannot answer some
    /// condition.
    pub allow_filter_scan: bool,
}

impl Question {
    /// Returns the conditions as the text of a filter.
    pub fn filter_text(&self, collection: &Collection) -> String {
        let texts: Vec<String> = self
            .conditions
            .iter()
            .map(|condition| condition.text(collection))
            .collect();
        texts.join(" AND ")
    }

    /// Returns the sort order as text.
    pub fn sort_text(&self, collection: &Collection) -> String {
        let terms: Vec<String> = self
            .sort
            .iter()
            .map(|(field, direction)| {
                let name = &collection.fields[*field].name;
                if *direction == Direction::Descending {
                    format!("{name} desc")
                } else {
                    name.clone()
                }
            })
            .collect();
        terms.join(", ")
    }
}

/// Returns a value as a literal in the text of a filter.
fn literal(ty: &Type, value: &Value) -> String {
    let text = json::to_text(ty, value);
    let is_bare = match value {
        Value::Float(number) => number.is_finite(),
        Value::Double(number) => number.is_finite(),
        Value::Boolean(_)
        | Value::TinyInt(_)
        | Value::SmallInt(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Varint(_) => true,
        _ => false,
    };
    if is_bare { text } else { quoted(&text) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
