//! The shape of filter text: what is compared how, without what it is compared with. Values are private, and logs
//! and tallies are read by others than those who asked.

use recto_plan::text::{Term, filter, sort};

/// What stands for a value.
const VALUE: &str = "?";

/// The shape of filter texts that all hold, each condition once, in an order of its own, so that queries which differ in values only
/// have one; an OR of any number of values has two. None if one is no filter text.
///
/// ```
/// let shape = recto_design::filter_shape([r#"origin = "JFK" AND (carrier = "AA" OR carrier = "UA" OR carrier = "B6")"#]);
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

/// The one way of writing a sort, however it was written. None if the text is no sort.
///
/// ```
/// assert_eq!(recto_design::sort_shape(" due  asc ,-id").as_deref(), Some("due, id desc"));
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
