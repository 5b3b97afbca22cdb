//! Page of records as the API returns it, with its page tokens, row count and cost.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::explanation::PlanShape;
use crate::pages::RowCount;

/// Record as a JSON object of its fields, without fields that are null.
pub type JsonRecord = Map<String, Json>;

/// Page of a collection.
///
/// It is the reply to `GET …/records` and `…/records:query`, and the output of `recto page --json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Page"))]
pub struct PageReply {
    /// Records in the order of the query.
    pub records: Vec<JsonRecord>,
    /// Token of the next page; empty only at the end.
    pub next_page_token: String,
    /// Token of the previous page; empty only at the beginning.
    pub previous_page_token: String,
    /// Budget that cut the page; its tokens continue from there. Absent if the page is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Stop"))]
    pub stop: Option<Stop>,
    /// Token of each record, if `row_page_tokens` asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub row_page_tokens: Option<Vec<String>>,
    /// Version of each record, if `versions` asked for them; null for a record that has none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "versions")]
    #[cfg_attr(
        test,
        schemars(with = "Vec<Option<String>>", inner(regex(pattern = "^-?[0-9]+$")))
    )]
    pub versions: Option<Vec<Option<i64>>>,
    /// Number of rows of the query and before the page, if `count` asked for them.
    #[serde(flatten)]
    pub row_count: Option<RowCount>,
    /// Maximum number of records that no page of the query shows, because they do not fit the view;
    /// absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lacks: u64,
    /// How the page was found, if this is known. Not part of the JSON.
    #[serde(skip)]
    pub shape: Option<PlanShape>,
    /// Cost of the page. Not part of the JSON: HTTP has it in a header.
    #[serde(skip)]
    pub cost: PageCost,
    /// Whether the cost must not be told, because it counts rows that a row filter hides. Not part of the JSON.
    #[serde(skip)]
    pub cost_hidden: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Budget of a page that was reached before the page was full.
///
/// The page has no gap: its tokens continue where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Stop {
    /// Recto has read the maximum number of rows.
    Scanned,
    /// The rows have the maximum number of bytes.
    Bytes,
    /// The time is over.
    Time,
}

impl Stop {
    /// Returns the name in JSON of the budget (rows, bytes or time) that ended a page early.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scanned => "scanned",
            Self::Bytes => "bytes",
            Self::Time => "time",
        }
    }

    /// Returns the name, for people, of the budget (rows, bytes or time) that ended a page early.
    pub fn budget(self) -> &'static str {
        match self {
            Self::Scanned => "rows scanned",
            Self::Bytes | Self::Time => self.name(),
        }
    }
}

/// Writes the name of the budget that ended a page early: `scanned`, `bytes` or `time`.
impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Cost of reading a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PageCost {
    /// Number of rows that were read from the store.
    pub rows_read: u64,
    /// Number of bytes of these rows.
    pub bytes_read: u64,
    /// Number of round trips, one after the other.
    pub round_trips: u32,
    /// Number of requests to the store.
    pub statements: u32,
    /// Number of tombstones that the reads crossed, if the store reports it.
    pub tombstones: u64,
    /// Number of buckets that were read, at most 1,024.
    pub buckets: u32,
    /// Number of reads of the directory of buckets; 0 if it was known.
    pub directory_reads: u32,
    /// Number of reads that continued at a later position of an intersected view.
    pub seeks: u32,
    /// Time to read the page, in microseconds.
    pub time_micros: u64,
}

impl PageCost {
    /// Name of the HTTP header that contains the cost of a page.
    pub const HEADER: &'static str = "recto-cost";

    /// Returns the cost as the value of the HTTP header [`HEADER`](Self::HEADER): a dictionary of
    /// integers (RFC 9651).
    ///
    /// ```
    /// # use recto_api::pages::PageCost;
    /// let cost = PageCost { rows_read: 51, ..PageCost::default() };
    /// assert!(cost.to_header().starts_with("rows_read=51, bytes_read=0, "));
    /// assert_eq!(PageCost::of_header(&cost.to_header()), cost);
    /// ```
    pub fn to_header(&self) -> String {
        let numbers = self.members().map(|(name, number)| format!("{name}={number}"));
        numbers.join(", ")
    }

    /// Parses a cost from the value of its HTTP header. Ignores unknown members, which a later
    /// release may add.
    pub fn of_header(text: &str) -> Self {
        let mut cost = Self::default();
        for (name, number) in text.split(',').filter_map(|member| member.split_once('=')) {
            let number: u64 = number.trim().parse().unwrap_or(0);
            let narrow = || u32::try_from(number).unwrap_or(u32::MAX);
            match name.trim() {
                "rows_read" => cost.rows_read = number,
                "bytes_read" => cost.bytes_read = number,
                "round_trips" => cost.round_trips = narrow(),
                "statements" => cost.statements = narrow(),
                "tombstones" => cost.tombstones = number,
                "buckets" => cost.buckets = narrow(),
                "directory_reads" => cost.directory_reads = narrow(),
                "seeks" => cost.seeks = narrow(),
                "time_micros" => cost.time_micros = number,
                _ => {}
            }
        }
        cost
    }

    fn members(&self) -> [(&'static str, u64); 9] {
        [
            ("rows_read", self.rows_read),
            ("bytes_read", self.bytes_read),
            ("round_trips", self.round_trips.into()),
            ("statements", self.statements.into()),
            ("tombstones", self.tombstones),
            ("buckets", self.buckets.into()),
            ("directory_reads", self.directory_reads.into()),
            ("seeks", self.seeks.into()),
            ("time_micros", self.time_micros),
        ]
    }
}

/// Converts the version of a record to JSON text, because many programs round large JSON numbers.
/// `None` (a record without versions) becomes null.
pub fn version_json(version: Option<i64>) -> Json {
    version.map_or(Json::Null, |version| version.to_string().into())
}

/// Serialization (for `#[serde(with)]`) of a list of record versions as text or null.
mod versions {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::ref_option, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(
        versions: &Option<Vec<Option<i64>>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let versions = versions.iter().flatten();
        serializer.collect_seq(versions.map(|version| version.map(|version| version.to_string())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<Option<i64>>>, D::Error> {
        let texts = Option::<Vec<Option<String>>>::deserialize(deserializer)?;
        let number = |text: Option<String>| text.map(|text| text.parse()).transpose();
        let versions = texts.map(|texts| texts.into_iter().map(number).collect());
        versions.transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_is_read_back() {
        let bare = json!({ "records": [{ "a": 0.1 }], "next_page_token": "n", "previous_page_token": "" });
        let full = json!({
            "records": [{ "a": 1 }, {}],
            "next_page_token": "n",
            "previous_page_token": "p",
            "stop": "time",
            "row_page_tokens": ["s", "t"],
            "versions": ["1763740800000000", null],
            "total_size": 336_776,
            "total_size_error": 900,
            "offset": 50,
            "offset_error": 0,
            "lacks": 2,
        });
        let counted = json!({
            "records": [],
            "next_page_token": "",
            "previous_page_token": "",
            "total_size": 10_000,
            "total_size_error": 0,
            "total_size_is_minimum": true,
        });
        for json in [bare.clone(), full, counted] {
            let reply: PageReply = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&reply).unwrap(), json);
        }
        let mut later = bare.clone();
        later["of_a_later_release"] = 1.into();
        let reply: PageReply = serde_json::from_value(later).unwrap();
        assert_eq!(serde_json::to_value(&reply).unwrap(), bare);
    }

    #[test]
    fn a_header_is_read_back_and_unknown_members_are_skipped() {
        let cost = PageCost {
            rows_read: 51,
            bytes_read: 9_800,
            round_trips: 2,
            statements: 3,
            tombstones: 8,
            buckets: 2,
            directory_reads: 1,
            seeks: 4,
            time_micros: 7,
        };
        let text = cost.to_header();
        assert_eq!(PageCost::of_header(&text), cost);
        let more = format!("more=\"x\",{}", text.replace(", ", ","));
        assert_eq!(PageCost::of_header(&more), cost);
        let json = serde_json::to_value(cost).unwrap();
        for (name, number) in cost.members() {
            assert_eq!(json[name], number);
        }
    }
}
