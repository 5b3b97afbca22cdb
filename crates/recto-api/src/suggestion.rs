//! Suggestion of a view or a collection that would serve a query.

use std::fmt;
use std::sync::Arc;

use recto_model::schema::{Collection, Schema, View};

/// View or collection that would serve a query which the store cannot serve now.
///
/// Usually it is a view of the query's collection. With `writes = "overwrite"`, a collection cannot
/// have every view. In that case it is another collection with the same records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// Collection to which the suggested view belongs, or the suggested new collection.
    pub collection: Arc<Collection>,
    /// View to add to `collection`; `None` if the suggestion is the new collection itself.
    pub view: Option<View>,
    /// Fields that each record of the new collection must have, although they are optional in the
    /// query's collection.
    pub required: Vec<String>,
    /// True if the query also needs `allow_filter_scan`, so that Recto may check some conditions
    /// row by row.
    pub with_filter_scan: bool,
}

impl Suggestion {
    /// Returns a sentence that precedes the declaration of the suggested view or collection.
    pub fn introduction(&self) -> String {
        match (&self.view, self.with_filter_scan) {
            (Some(_), false) => return "this view serves it:".to_owned(),
            (Some(_), true) => {
                return "no view can serve all conditions. This view serves the query with allow_filter_scan, \
                        which checks the other conditions row by row:"
                    .to_owned();
            }
            (None, _) => {}
        }
        let serves = if self.with_filter_scan {
            "no collection can serve all conditions. With allow_filter_scan, which checks the other \
             conditions row by row, a second collection of the same records serves the query"
        } else {
            "a second collection of the same records serves the query"
        };
        let must = match self.required.as_slice() {
            [] => String::new(),
            names => format!(". Each record must then have {}", names.join(", ")),
        };
        format!("{serves}, if you write each record to both collections{must}:")
    }

    /// Returns the declaration of the suggested view or collection, for users to paste into their
    /// schema.
    pub fn declaration(&self) -> String {
        if let Some(view) = &self.view {
            return self.collection.view_declaration(view);
        }
        let schema = Schema {
            collections: vec![Arc::clone(&self.collection)],
            ..Schema::default()
        };
        schema.to_toml().trim_start().to_owned()
    }
}

/// Writes the introduction of the suggestion, and its declaration on the lines below.
impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.introduction(), self.declaration())
    }
}
