//! Records that a view or a unique constraint should have and cannot hold.

use std::fmt;

use recto_protocol::views::MisfitCause;
use recto_protocol::views::collection::MAX_VIEW_KEY_BYTES;
use serde::{Deserialize, Serialize};

use crate::text::{counted, grouped};

/// Maximum number of misfits of a view that are listed.
pub const MAX_LISTED_MISFITS: usize = 20;

/// Number of misfits of a view or of a unique constraint, by cause.
///
/// A misfit is a record that should be there and does not fit. It has no entry, so that no page of the view shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MisfitCounts {
    /// Records whose value of the only partition field is empty.
    pub empty: u64,
    /// Records whose key in the view is too large.
    pub too_large: u64,
}

impl MisfitCounts {
    /// Returns the number of all misfits.
    pub fn total(&self) -> u64 {
        self.empty + self.too_large
    }

    /// Returns the number of misfits that exceed the counts in `known`.
    pub fn beyond(&self, known: &Self) -> u64 {
        self.empty.saturating_sub(known.empty) + self.too_large.saturating_sub(known.too_large)
    }

    /// Returns the larger number of each cause.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            empty: self.empty.max(other.empty),
            too_large: self.too_large.max(other.too_large),
        }
    }

    /// Whether all records fit.
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
    pub(crate) fn is_none(&self) -> bool {
        self.total() == 0
    }

    pub(crate) fn add(&mut self, cause: MisfitCause) {
        match cause {
            MisfitCause::Empty => self.empty += 1,
            MisfitCause::TooLarge(_) => self.too_large += 1,
        }
    }
}

/// `2 records that do not fit (1 empty, 1 too large)`.
impl fmt::Display for MisfitCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = counted(self.total(), "record that does", "records that do");
        write!(f, "{records} not fit (")?;
        match (self.empty, self.too_large) {
            (empty, 0) => write!(f, "{} empty)", grouped(empty)),
            (0, too_large) => write!(f, "{} too large)", grouped(too_large)),
            (empty, too_large) => {
                write!(f, "{} empty, {} too large)", grouped(empty), grouped(too_large))
            }
        }
    }
}

/// A record that does not fit a view or a unique constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMisfit {
    /// The key of the record.
    pub key: String,
    /// The field that is the cause.
    pub field: String,
    /// Number of bytes that the key in the view would have; absent if the field is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<u64>,
}

impl ListedMisfit {
    pub(crate) fn new(key: String, field: &str, cause: MisfitCause) -> Self {
        Self {
            key,
            field: field.to_owned(),
            key_bytes: match cause {
                MisfitCause::Empty => None,
                MisfitCause::TooLarge(bytes) => Some(bytes as u64),
            },
        }
    }

    /// Returns the cause in words: `city is empty`.
    pub fn reason(&self) -> String {
        match self.key_bytes {
            None => format!("{} is empty", self.field),
            Some(bytes) => format!(
                "{} is too large: the key would have {} bytes, {} are the most",
                self.field,
                grouped(bytes),
                grouped(MAX_VIEW_KEY_BYTES as u64)
            ),
        }
    }
}

/// The misfits of a view or of a unique constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfits {
    /// The collection.
    pub collection: String,
    /// The name of the view; of a unique constraint `unique (FIELDS)`.
    pub view: String,
    /// The number of misfits.
    #[serde(flatten)]
    pub counts: MisfitCounts,
    /// The first of them, at most [`MAX_LISTED_MISFITS`].
    pub listed: Vec<ListedMisfit>,
}

/// `p.by_city: 2 records that do not fit (1 empty, 1 too large), as 1: city is empty; …`.
impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}: {}", self.collection, self.view, self.counts)?;
        for (index, misfit) in self.listed.iter().enumerate() {
            let before = if index == 0 { ", as " } else { "; " };
            write!(f, "{before}{}: {}", misfit.key, misfit.reason())?;
        }
        let more = self.counts.total().saturating_sub(self.listed.len() as u64);
        match more {
            0 => Ok(()),
            more => write!(f, "; and {} more", grouped(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misfits_are_told_with_their_causes() {
        let mut misfits = Misfits {
            collection: "p".into(),
            view: "by_city".into(),
            listed: vec![
                ListedMisfit::new("1".into(), "city", MisfitCause::Empty),
                ListedMisfit::new("3".into(), "name", MisfitCause::TooLarge(9_005)),
            ],
            ..Misfits::default()
        };
        for cause in [
            MisfitCause::Empty,
            MisfitCause::TooLarge(9_005),
            MisfitCause::TooLarge(9_006),
        ] {
            misfits.counts.add(cause);
        }
        assert_eq!(
            misfits.to_string(),
            "p.by_city: 3 records that do not fit (1 empty, 2 too large), as 1: city is empty; 3: name is too large: the \
             key would have 9,005 bytes, 8,192 are the most; and 1 more"
        );
        let known = MisfitCounts {
            empty: 5,
            too_large: 1,
        };
        assert_eq!(misfits.counts.beyond(&known), 1);
    }
}
