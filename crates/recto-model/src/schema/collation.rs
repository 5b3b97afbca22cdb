//! Rule that a field has the same collation in all views of a collection.

use std::fmt;

use super::model::{Collection, View};
use crate::collation::Collation;

/// Conflict between two views of a collection that sort by the same field in different orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollationConflict<'a> {
    /// Name of the view that conflicts with the view `first`.
    pub view: &'a str,
    /// Name of the field.
    pub field: &'a str,
    /// Collation of the field in the view `view`. `None` if the view sorts by the bytes of the
    /// field.
    pub collation: Option<Collation>,
    /// Name of the first view that has a collation of the field.
    pub first: &'a str,
    /// Collation of the field in the view `first`.
    pub first_collation: Collation,
}

impl CollationConflict<'_> {
    /// Returns a hint that says how to resolve the conflict.
    pub fn hint(&self) -> &'static str {
        "declare the same collation of the field in all views that have it in their order"
    }
}

impl fmt::Display for CollationConflict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorts = |collation: Option<Collation>| match collation {
            Some(collation) => format!("by the collation \"{collation}\""),
            None => "by its bytes".to_owned(),
        };
        let (here, there) = (sorts(self.collation), sorts(Some(self.first_collation)));
        write!(
            f,
            "`{}` sorts {here} in view `{}`, but {there} in view `{}`",
            self.field, self.view, self.first
        )
    }
}

/// Returns the views that sort by a field in another order than the first view that has a collation
/// of the field. Key fields that Recto appends to an order do not count, because they sort by their
/// bytes.
pub(super) fn conflicts(views: &[View]) -> Vec<CollationConflict<'_>> {
    let mut conflicts = Vec::new();
    for (index, first) in views.iter().enumerate() {
        for (field, &collation) in &first.collate {
            let has_it = |view: &View| view.collate.contains_key(field);
            if views[..index].iter().any(has_it) {
                continue;
            }
            let others = views.iter().filter(|view| {
                let is_by = view.order.iter().any(|column| column.field == *field);
                is_by && view.collate.get(field) != Some(&collation)
            });
            conflicts.extend(others.map(|view| CollationConflict {
                view: &view.name,
                field,
                collation: view.collate.get(field).copied(),
                first: &first.name,
                first_collation: collation,
            }));
        }
    }
    conflicts
}

impl Collection {
    /// Returns the views that sort by a field in another order than another view. A parsed
    /// collection has no such views, but a collection that keeps views of an earlier schema can
    /// have some.
    pub fn collation_conflicts(&self) -> Vec<CollationConflict<'_>> {
        conflicts(&self.views)
    }
}
