//! Options for loading a CSV or NDJSON file into collections.

use serde::{Deserialize, Serialize};

use crate::pages::is_false;
use crate::parameters::comma_separated;

/// Options of `POST …/store:load`, in addition to those of CSV files. The body is the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadOptions {
    /// Collections to load into.
    #[serde(with = "comma_separated", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        test,
        schemars(with = "Vec<String>", length(min = 1), extend("required" = true, "explode" = false))
    )]
    pub collections: Vec<String>,
    /// Name of the file. Its ending gives the format: `.csv`, `.ndjson` or `.jsonl`, optionally with `.gz`,
    /// `.zst` or `.zip`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        test,
        schemars(
            regex(pattern = "^.+[.](?:csv|ndjson|jsonl|zip|(?:csv|ndjson|jsonl)[.](?:gz|zst))$"),
            extend("required" = true)
        )
    )]
    pub name: String,
    /// Load a file that was loaded before.
    #[serde(skip_serializing_if = "is_false")]
    pub again: bool,
    /// Ignore columns and members that no collection has.
    #[serde(skip_serializing_if = "is_false")]
    pub ignore_unknown: bool,
}
