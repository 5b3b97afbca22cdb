//! A view or a collection that would serve a query.

use std::fmt;
use std::sync::Arc;

use recto_model::schema::{Collection, Schema, View};

/// A view or a collection that would serve a query.
///
/// It is a view of the collection of the query. With `writes = "overwrite"`, a collection cannot have every view; then it is
/// another collection with the same records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// Collection of the query, or the other collection.
    pub collection: Arc<Collection>,
    /// The view that the collection would have; `None` for another collection.
    pub view: Option<View>,
    /// Fields that each record of the other collection must have, and that are optional in the collection of the query.
    pub required: Vec<String>,
    /// Whether it serves the query only if Recto may check some conditions row by row.
    pub with_filter_scan: bool,
}

impl Suggestion {
    /// Returns a sentence that introduces the declaration.
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

    /// Returns the declaration, to be pasted into the schema.
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

/// The introduction, and the declaration on the lines after it.
impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.introduction(), self.declaration())
    }
}
