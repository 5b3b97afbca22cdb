//! Texts about a design for people, such as the output of the command line.

use std::fmt::{self, Display, Formatter};

use crate::advisor::design::{Design, ServedQuery, ViewAlternative};

impl Design {
    /// Returns the number of queries and the number of proposed views, in one line.
    pub fn summary(&self) -> String {
        let queries = counted(self.queries.len(), "query", "queries");
        let views = counted(self.views.len(), "view", "views");
        match (self.views.is_empty(), self.is_minimal) {
            (true, _) => format!("{queries}, no new view needed"),
            (false, true) => format!("{queries}, {views} to add, which is the minimum"),
            (false, false) => {
                format!("{queries}, {views} to add; this may not be the minimum")
            }
        }
    }

    /// Returns the number of tables to which one record is written, and the number before the
    /// proposed views if it differs.
    pub fn written(&self) -> String {
        let after = counted(self.tables_after, "table", "tables");
        if self.tables_before == self.tables_after {
            format!("{after}, unchanged")
        } else {
            format!("{after} instead of {}", self.tables_before)
        }
    }
}

impl ServedQuery {
    /// Returns a description of the query's plan, for example `merge of 2, price looked up`.
    pub fn how(&self) -> String {
        let mut how = self.shape.clone();
        if self.sources > 1 {
            how.push_str(&format!(" of {}", self.sources));
        }
        if !self.looked_up.is_empty() {
            how.push_str(&format!(", {} looked up", self.looked_up.join(", ")));
        }
        how
    }
}

impl Display for ViewAlternative {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { view } => write!(out, "served by {view}"),
            Self::Intersect { views } => write!(out, "served by {} together", views.join(" and ")),
            Self::ScanCondition { views, fields } => {
                write!(out, "{} row by row in {}", fields.join(", "), views.join(" and "))
            }
            Self::Merge { view, fields } => write!(out, "merge over {} of {view}", fields.join(", ")),
            Self::Refused => out.write_str("rejected"),
        }
    }
}

/// Returns a count with its noun, for example `1 view` or `2 views`.
fn counted(number: usize, singular: &str, plural: &str) -> String {
    let noun = if number == 1 { singular } else { plural };
    format!("{number} {noun}")
}
