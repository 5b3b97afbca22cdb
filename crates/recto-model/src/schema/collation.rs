//! That a field has one collation in a collection.

use std::fmt;

use super::model::{Collection, View};
use crate::collation::Collation;

/// A view that sorts by a field otherwise than another does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollationConflict<'a> {
    /// The view.
    pub view: &'a str,
    /// The field.
    pub field: &'a str,
    /// Its collation there; none: it sorts by its bytes.
    pub collation: Option<Collation>,
    /// The first view that has another.
    pub first: &'a str,
    /// Which one that is.
    pub first_collation: Collation,
}

impl CollationConflict<'_> {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        "declare one collation of the field in all views that name it in their order"
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
            "`{}` sorts {here} in view `{}`, and {there} in view `{}`",
            self.field, self.view, self.first
        )
    }
}

/// The views that sort by a field otherwise than the first that has a collation of it. Key fields that complete an order
/// are not named in it, and sort by their bytes.
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
    /// The views that sort by a field otherwise than another does. A collection that was parsed has none; what keeps
    /// views of another schema may.
    pub fn collation_conflicts(&self) -> Vec<CollationConflict<'_>> {
        conflicts(&self.views)
    }
}
