//! Requests that export all records of a collection.

use serde::{Deserialize, Serialize};

use crate::pages::is_false;
#[cfg(feature = "clap")]
use crate::pages::trimmed;
use crate::parameters::{comma_separated, present};

/// Records of a collection to export: the parameters of `…/records:export`, and of `recto scan`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ScanRequest {
    /// Conditions that the records satisfy, joined by AND. If pages cannot be served for the filter, Recto
    /// reads every record.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)
    )]
    pub filter: String,
    /// Fields to return; absent or empty, all.
    #[serde(with = "comma_separated", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("explode" = false)))]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FIELDS", value_delimiter = ',', value_parser = trimmed))]
    pub fields: Vec<String>,
    /// Return each record with its version, as `{"record": …, "version": …}`.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub versions: bool,
    /// Token of an earlier export of the same filter, which this one continues.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TOKEN"))]
    #[cfg_attr(test, schemars(with = "String"))]
    pub resume_token: Option<String>,
    /// Number of ranges to read at the same time; 0, the store's default. A server chooses this number
    /// itself.
    #[serde(skip)]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "RANGES", default_value_t = 0, hide_default_value = true)
    )]
    pub parallel: u32,
}

/// Options of `…/records:export`, in addition to those of the scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExportOptions {
    /// Wrap each record as `{"record": …}`, with lines `{"resume_token": "…"}` between them. An interrupted
    /// export continues after the last of these lines. At the end of the export, the token of the last line
    /// is empty.
    #[serde(skip_serializing_if = "is_false")]
    pub resume_tokens: bool,
}
