//! Reports of misfits: records that cannot have an entry in a view or in a unique constraint.

use std::fmt;

use recto_model::schema::MAX_VIEW_KEY_BYTES;
use serde::{Deserialize, Serialize};

use crate::display::{counted, grouped};

/// Maximum number of misfits (records that do not fit a view) that a report lists for each view.
pub const MAX_LISTED_MISFITS: usize = 20;

/// Number of misfits of a view or of a unique constraint, by cause.
///
/// A misfit is a record that should be there and does not fit. It has no entry, so that no page of the view shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MisfitCounts {
    /// Number of records whose value of the only partition field is empty.
    pub empty: u64,
    /// Number of records whose key in the view would be too large.
    pub too_large: u64,
}

impl MisfitCounts {
    /// Returns the number of misfits (records that do not fit a view), whatever the cause.
    pub fn total(&self) -> u64 {
        self.empty + self.too_large
    }

    /// Returns how many misfits `self` has in addition to `known`, summed over all causes. A cause
    /// with fewer misfits than in `known` counts 0.
    pub fn beyond(&self, known: &Self) -> u64 {
        self.empty.saturating_sub(known.empty) + self.too_large.saturating_sub(known.too_large)
    }

    /// Returns, for each cause, the larger of the two numbers of misfits.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            empty: self.empty.max(other.empty),
            too_large: self.too_large.max(other.too_large),
        }
    }

    /// Returns whether the number of misfits is 0.
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
    pub fn is_none(&self) -> bool {
        self.total() == 0
    }
}

/// Writes the numbers in the form `2 records that do not fit (1 empty, 1 too large)`.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListedMisfit {
    /// Key of the record.
    pub key: String,
    /// Field that is the cause.
    pub field: String,
    /// Number of bytes that the key in the view would have; absent if the field is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub key_bytes: Option<u64>,
}

impl ListedMisfit {
    /// Returns the reason why the record does not fit: `city is empty`.
    pub fn reason(&self) -> String {
        match self.key_bytes {
            None => format!("{} is empty", self.field),
            Some(bytes) => format!(
                "{} is too large: the key would have {} bytes, and the maximum is {}",
                self.field,
                grouped(bytes),
                grouped(MAX_VIEW_KEY_BYTES as u64)
            ),
        }
    }
}

/// Records that do not fit a view or a unique constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Misfits {
    /// Collection of the records.
    pub collection: String,
    /// Name of the view; of a unique constraint `unique (FIELDS)`.
    pub view: String,
    /// Numbers of records.
    #[serde(flatten)]
    pub counts: MisfitCounts,
    /// First of these records.
    #[cfg_attr(test, schemars(length(max = MAX_LISTED_MISFITS)))]
    pub listed: Vec<ListedMisfit>,
}

/// Writes the view, the counts and the listed records, such as `p.by_city: 2 records that do not
/// fit (1 empty, 1 too large), as 1: city is empty; …`.
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
        let listed = |key: &str, field: &str, key_bytes| ListedMisfit {
            key: key.into(),
            field: field.into(),
            key_bytes,
        };
        let misfits = Misfits {
            collection: "p".into(),
            view: "by_city".into(),
            counts: MisfitCounts {
                empty: 1,
                too_large: 2,
            },
            listed: vec![listed("1", "city", None), listed("3", "name", Some(9_005))],
        };
        assert_eq!(
            misfits.to_string(),
            "p.by_city: 3 records that do not fit (1 empty, 2 too large), as 1: city is empty; 3: name is too large: the \
             key would have 9,005 bytes, and the maximum is 8,192; and 1 more"
        );
        let known = MisfitCounts {
            empty: 5,
            too_large: 1,
        };
        assert_eq!(misfits.counts.beyond(&known), 1);
    }
}
