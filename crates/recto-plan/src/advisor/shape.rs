//! Shape of filter text: fields and comparisons without values. Logs and query counts contain
//! shapes, because values are private and other people than the clients may read logs.

use crate::text::{Term, filter, sort};

/// Placeholder that a shape has in place of each value.
const VALUE: &str = "?";

/// Returns the shape of a conjunction of filter texts, or `None` if one of them is not filter text. The shape has each
/// condition once, in a fixed order, so that queries that differ only in values have the same shape. An OR of any
/// number of values has two values in the shape.
///
/// ```
/// let shape = recto_plan::advisor::filter_shape([r#"origin = "JFK" AND (carrier = "AA" OR carrier = "UA" OR carrier = "B6")"#]);
/// assert_eq!(shape.as_deref(), Some("(carrier = ? OR carrier = ?) AND origin = ?"));
/// ```
pub fn filter_shape<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut shapes: Vec<String> = Vec::new();
    for text in texts {
        shapes.extend(filter::parse(text).ok()?.terms.iter().map(shape));
    }
    shapes.sort();
    shapes.dedup();
    Some(shapes.join(" AND "))
}

/// Returns the normal form of a sort text, or `None` if the text is not a sort.
///
/// ```
/// assert_eq!(recto_plan::advisor::sort_shape(" due  asc ,-id").as_deref(), Some("due, id desc"));
/// ```
pub fn sort_shape(text: &str) -> Option<String> {
    sort::parse(text).ok().map(|terms| sort::print(&terms))
}

fn shape(term: &Term) -> String {
    match term {
        Term::Compare { field, operator, .. } => format!("{field} {operator} {VALUE}"),
        Term::AnyOf { field, .. } => format!("({field} = {VALUE} OR {field} = {VALUE})"),
        Term::StartsWith { field, .. } => format!("startsWith({field}, {VALUE})"),
        Term::Tuple { fields, operator, .. } => {
            let names: Vec<&str> = fields.iter().map(|field| field.text.as_str()).collect();
            let values = vec![VALUE; fields.len()];
            format!("({}) {operator} ({})", names.join(", "), values.join(", "))
        }
    }
}
