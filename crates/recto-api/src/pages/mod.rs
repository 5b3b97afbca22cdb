//! Pages of a collection: requests for pages, and [replies](PageReply).

mod count;
mod reply;

use serde::{Deserialize, Serialize};

use crate::parameters::{ParameterError, comma_separated, json_text, parsed, text_option, whole_number};

pub use count::{Count, MAX_COUNT_UP_TO, RowCount};
pub use reply::{JsonRecord, PageCost, PageReply, Stop, version_json};

/// Default number of rows of a page.
pub const DEFAULT_PAGE_SIZE: u32 = 50;
/// Maximum number of rows of a page. A larger request gets a page of this size.
pub const MAX_PAGE_SIZE: u32 = 1_000;

/// Which page of a collection: the parameters of `GET …/records`, of a body to `…/records:query`, and of `recto page`.
///
/// A request has at most one of `page_token`, `from`, `around`, `skip` and `last`.
#[allow(clippy::struct_excessive_bools, reason = "each is a parameter")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PageRequest {
    /// Conditions, joined by AND (a subset of AIP-160), such as `carrier = "UA" AND (dest = "SFO" OR dest = "LAX") AND
    /// time_hour >= "2013-07-01T00:00:00Z"`, `startsWith(name, "Ab")` or `(day, id) > ("2013-07-01", 4)`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)
    )]
    pub filter: String,
    /// Sort (AIP-132), such as `due desc, id` or `-due, id`; absent, the order of the view.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            alias = "sort",
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true,
            allow_hyphen_values = true
        )
    )]
    pub order_by: String,
    /// Number of rows of the page, at most 1000; absent or 0, it is 50. It may change from page to page.
    #[serde(deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "ROWS", allow_negative_numbers = true)
    )]
    #[cfg_attr(test, schemars(with = "u64", extend("default" = DEFAULT_PAGE_SIZE)))]
    pub page_size: Option<i64>,
    /// Token of the page, from `next_page_token` or `previous_page_token` of an earlier page of the
    /// same query; absent or empty, the first page.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "TOKEN",
            group = "position",
            default_value = "",
            hide_default_value = true
        )
    )]
    pub page_token: String,
    /// The last page.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "clap", arg(long, group = "position"))]
    pub last: bool,
    /// Values of the order's first fields at which the page starts, inclusive: a JSON array, such as
    /// `["2013-07-04T12:00:00Z"]`.
    #[serde(with = "json_text", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "VALUES", group = "position"))]
    #[cfg_attr(test, schemars(with = "Vec<serde_json::Value>"))]
    pub from: Option<String>,
    /// Token of a row, for the page around that row. Or a percentage such as `60%`, for the page
    /// around the row that has this share of all rows before it, if Recto counts the rows of the
    /// query.
    #[serde(deserialize_with = "text_option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TOKEN", group = "position"))]
    #[cfg_attr(test, schemars(with = "String"))]
    pub around: Option<String>,
    /// Number of rows before the page (AIP-158), on an embedded store.
    #[serde(deserialize_with = "whole_number", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "ROWS", group = "position", allow_negative_numbers = true)
    )]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub skip: Option<i64>,
    /// Fields to return; absent or empty, all.
    #[serde(with = "comma_separated", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<String>", extend("explode" = false)))]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FIELDS", value_delimiter = ',', value_parser = trimmed))]
    pub fields: Vec<String>,
    /// View to read; absent, Recto chooses one.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "VIEW", default_value = "", hide_default_value = true)
    )]
    pub view: String,
    /// Allow conditions that no view serves: Recto reads rows and checks them one by one.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_filter_scan: bool,
    /// Return a token for each row.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub row_page_tokens: bool,
    /// Return the version of each record.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub versions: bool,
    /// Find out at both ends of the page whether there are more rows.
    #[serde(skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub both_edges: bool,
    /// Count the rows of the query as `total_size`. `exact` counts all rows, and those before the
    /// page as `offset`, on an embedded store. `estimate` does the same on Cassandra for a sort order
    /// with buckets, with the errors of both numbers. `up_to:N` reads rows until there are more than N,
    /// at most 10000: `total_size` is exact, or N with `total_size_is_minimum`.
    #[serde(with = "parsed", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    #[cfg_attr(
        test,
        schemars(with = "String", regex(pattern = "^(exact|estimate|up_to:[1-9][0-9]{0,4})$"))
    )]
    pub count: Option<Count>,
}

impl PageRequest {
    /// Checks that the request has at most one position, and no negative number (AIP-158).
    ///
    /// # Errors
    /// The error names the invalid parameter.
    pub fn check(&self) -> Result<(), ParameterError> {
        let positions = [
            ("page_token", !self.page_token.is_empty()),
            ("from", self.from.is_some()),
            ("around", self.around.is_some()),
            ("skip", self.skip.is_some()),
            ("last", self.last),
        ];
        let mut given = positions.into_iter().filter(|(_, is_given)| *is_given);
        if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
            let message = format!("{one} and {other} exclude one another");
            return Err(ParameterError::new(other, message)
                .with_hint("a page starts at one position: give one of them"));
        }
        let numbers = [("page_size", self.page_size), ("skip", self.skip)];
        match numbers
            .into_iter()
            .find(|(_, number)| number.is_some_and(|number| number < 0))
        {
            Some((name, number)) => {
                let message = format!("{name} is {}; it cannot be negative", number.unwrap_or_default());
                Err(ParameterError::new(name, message))
            }
            None => Ok(()),
        }
    }

    /// Returns a request for the first page, with the same filter, sort order and options.
    #[must_use]
    pub fn first_page(&self) -> Self {
        Self {
            page_token: String::new(),
            last: false,
            from: None,
            around: None,
            skip: None,
            ..self.clone()
        }
    }
}

/// Options of `…/records:explain`, beside those of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExplainOptions {
    /// Read the page, too, and return its cost.
    #[serde(skip_serializing_if = "is_false")]
    pub run: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// Parses a name in a list on the command line. A space after a comma is not part of the name.
#[cfg(feature = "clap")]
#[allow(clippy::unnecessary_wraps, reason = "clap takes parsers that can fail")]
pub(crate) fn trimmed(name: &str) -> Result<String, std::convert::Infallible> {
    Ok(name.trim().to_owned())
}
