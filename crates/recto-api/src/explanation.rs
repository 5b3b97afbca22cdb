//! Explanation of a query: its plan and its cost, as `GET …/records:explain` returns them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use recto_model::schema::{ArrangedBy, OrderColumn};
use recto_model::table::Direction;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::display::{bytes, counted, duration, grouped};
use crate::misfits::MisfitCounts;
use crate::pages::PageCost;

/// Maximum number of bucket ids that the text form of a plan shows for one source.
const MAX_BUCKETS_SHOWN: usize = 8;

/// Text after the shape of a plan that checks rows one by one (a filter scan).
const FILTER_SCAN: &str = " + filter";

/// How a plan combines its sources (key ranges that it reads) into one sequence of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The plan has no sources, because no row can match the query.
    Empty,
    /// The plan has one source.
    Scan,
    /// The sources do not overlap, so the plan reads one after the other.
    Concat,
    /// The plan merges the rows of several sources in the order of the query.
    Merge,
    /// The plan intersects several views: it has one source per view, and returns the records that
    /// all of the views contain.
    Intersect,
}

impl Shape {
    const ALL: [Self; 5] = [
        Self::Empty,
        Self::Scan,
        Self::Concat,
        Self::Merge,
        Self::Intersect,
    ];

    /// Returns the name of the combination in plans, such as `merge`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Scan => "scan",
            Self::Concat => "concat",
            Self::Merge => "merge",
            Self::Intersect => "intersect",
        }
    }
}

/// Summary of a plan that determines how its cost grows: how sources are combined, and whether rows
/// are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanShape {
    /// How the plan combines its sources into one sequence of rows.
    pub sources: Shape,
    /// True if the plan reads rows that may not match, and checks each row (a filter scan).
    pub filter_scan: bool,
}

/// Writes the plan shape in a form such as `merge + filter`.
impl fmt::Display for PlanShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sources.name())?;
        f.write_str(if self.filter_scan { FILTER_SCAN } else { "" })
    }
}

/// Parses the text that `Display` of [`PlanShape`] writes, such as `merge + filter`.
impl FromStr for PlanShape {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let checked = text.strip_suffix(FILTER_SCAN);
        let name = checked.unwrap_or(text);
        let sources = Shape::ALL.into_iter().find(|shape| shape.name() == name);
        Ok(Self {
            sources: sources.ok_or("a shape is empty, scan, concat, merge or intersect")?,
            filter_scan: checked.is_some(),
        })
    }
}

/// Plan and cost of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    /// `empty`, `scan`, `concat`, `merge` or `intersect`, with `+ filter` if Recto checks rows one by one.
    #[serde(with = "text")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub shape: PlanShape,
    /// View that is read; `primary` is the collection's own sort order. If several views are intersected, the
    /// view whose rows are shown.
    pub view: String,
    /// Partition and order of the view, in one line: `(carrier), -time_hour, flight`.
    #[serde(with = "text")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub sort_order: ArrangedBy,
    /// Table that is read.
    pub table: String,
    /// Views whose common records are shown, each a source; absent if one view is read alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intersected: Vec<ExplainedView>,
    /// Total order of the query, as in `order_by`: `time_hour desc, flight asc`.
    #[serde(serialize_with = "write_order", deserialize_with = "read_order")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub order: Vec<OrderColumn>,
    /// Collation of each field of the order whose text sorts by one; absent if there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collate: BTreeMap<String, String>,
    /// Direction in which the table is read: `with` or `against` its clustering order.
    pub direction: TableOrder,
    /// Key ranges that are read.
    pub sources: Vec<ExplainedSource>,
    /// Conditions that Recto checks row by row, as filters.
    pub filter_scan: Vec<String>,
    /// Reads of the base table for each row of a view: to show a row only if its record exists, and
    /// to look up fields that the view does not hold; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "ExplainedBaseRows"))]
    pub base_rows: Option<ExplainedBaseRows>,
    /// Maximum number of records that are missing from the view because they do not fit it; absent
    /// if none is missing, or if the token sees only some rows.
    #[serde(default, skip_serializing_if = "MisfitCounts::is_none")]
    pub misfits: MisfitCounts,
    /// How Recto knows the number of rows of the query without reading them, as for `count`; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "KnownRowCount"))]
    pub row_count: Option<KnownRowCount>,
    /// Maximum number of rows that the page reads.
    pub expected_rows: u64,
    /// Maximum number of round trips, one after the other.
    pub expected_round_trips: u32,
    /// Cost of the page, if `run` asked for it; absent if it would tell of rows that the token does not see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "ActualCost"))]
    pub actual: Option<ActualCost>,
    /// Other sort orders, with the reason why they are not read.
    pub rejected: Vec<RejectedSortOrder>,
}

/// Knowledge of the number of rows of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum KnownRowCount {
    /// The exact number.
    Exact,
    /// An estimate, with its error.
    Estimate,
}

/// Direction in which a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum TableOrder {
    /// With the clustering order, from the first row to the last.
    With,
    /// Against the clustering order, from the last row to the first.
    Against,
}

/// One of several views that are intersected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedView {
    /// Name of the view.
    pub view: String,
    /// Partition and order of the view, in one line: `(carrier), -time_hour, flight`.
    #[serde(with = "text")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub sort_order: ArrangedBy,
    /// Table of the view.
    pub table: String,
    /// Direction in which the table is read.
    pub direction: TableOrder,
}

/// Writes the view with its sort order, table and direction, as one line of [`Explanation::facts`].
impl fmt::Display for ExplainedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, {} read {} its clustering order",
            self.view, self.sort_order, self.table, self.direction
        )
    }
}

/// A key range that is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedSource {
    /// View of the source, if several views are intersected; else absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub view: String,
    /// Partition: `carrier = "UA"`.
    pub partition: String,
    /// Bounds in clustering order: `time_hour > …`.
    pub bounds: String,
    /// Requests to the store: CQL statements, or key ranges. Empty for a table in buckets if the
    /// token's row filter hides rows of it, because requests name the keys where buckets begin and
    /// end.
    pub requests: Vec<String>,
    /// Numbers of the buckets that were read, if `run` asked for it, at most 1,024; absent if the
    /// partition has no buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<u64>,
}

impl ExplainedSource {
    /// Returns the partition that the source reads, such as `carrier = "UA"`. The name of the view
    /// precedes it if the plan intersects several views.
    pub fn place(&self) -> String {
        match &*self.view {
            "" => self.partition.clone(),
            view => format!("{view}: {}", self.partition),
        }
    }

    /// Returns the ids of the buckets that the source read as text, such as `buckets 5, 2`. Returns
    /// `None` if the partition has no buckets.
    pub fn buckets_text(&self) -> Option<String> {
        let name = match self.buckets.len() {
            0 => return None,
            1 => "bucket",
            _ => "buckets",
        };
        let shown = self.buckets.iter().take(MAX_BUCKETS_SHOWN);
        let shown: Vec<String> = shown.map(u64::to_string).collect();
        let more = self.buckets.len() - shown.len();
        let shown = shown.join(", ");
        Some(match more {
            0 => format!("{name} {shown}"),
            _ => format!("{name} {shown} and {} more", grouped(more as u64)),
        })
    }
}

/// Reads of the base table, for each row of a view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedBaseRows {
    /// Whether a row is shown only if its base row says that its record has this place in the view.
    pub verified: bool,
    /// Fields that the view does not hold and that are looked up in the base table.
    pub looked_up: Vec<String>,
    /// Number of base rows that are read for each row of the view.
    pub reads_per_row: u32,
}

/// Describes when and why the plan reads base rows (rows of the collection's base table) for rows
/// of a view.
impl fmt::Display for ExplainedBaseRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.verified {
            f.write_str("a row is shown only if its base row, which is read afterwards, confirms it")?;
        }
        if !self.looked_up.is_empty() {
            let before = if self.verified { "; " } else { "" };
            write!(
                f,
                "{before}{} looked up in the base table",
                self.looked_up.join(", ")
            )?;
        }
        let more = counted(self.reads_per_row.into(), "read", "reads");
        write!(f, ": {more} more for each row")
    }
}

/// Cost of a page that was explained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActualCost {
    /// Cost of reading the page.
    #[serde(flatten)]
    pub cost: PageCost,
    /// Number of rows of the page.
    pub rows_returned: u64,
}

/// A sort order that is not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RejectedSortOrder {
    /// Name of the sort order.
    pub sort_order: String,
    /// Reason why it is not read.
    pub reason: String,
}

impl Explanation {
    /// Returns the order of the query as text: `time_hour desc, flight asc`.
    pub fn order_text(&self) -> String {
        order_text(&self.order)
    }

    /// Returns the sort order, the table and the row order of the plan for display, as pairs of a
    /// label and a text.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let table = format!("{}, read {} its clustering order", self.table, self.direction);
        let order = ("order", self.order_text());
        let facts = if self.intersected.is_empty() {
            vec![
                ("sort order", self.sort_order.to_string()),
                order,
                ("table", table),
            ]
        } else {
            let views = self.intersected.iter();
            let views = views.map(|view| ("intersected", view.to_string()));
            views.chain([order]).collect()
        };
        let conditions = self.filter_scan.iter();
        let conditions = conditions.map(|condition| ("filter scan", condition.clone()));
        let base_rows = self.base_rows.iter().map(|base| ("base rows", base.to_string()));
        let collations: Vec<String> = self
            .collate
            .iter()
            .map(|(field, locale)| format!("{field} as in {locale}"))
            .collect();
        let collations = (!collations.is_empty()).then(|| ("collation", collations.join(", ")));
        let lacks = (!self.misfits.is_none()).then(|| ("lacks", self.misfits.to_string()));
        let facts = facts.into_iter().chain(collations).chain(lacks);
        facts.chain(conditions).chain(base_rows).collect()
    }

    /// Returns the expected and the actual cost of the plan for display, as pairs of a label and a
    /// text.
    pub fn costs(&self) -> Vec<(&'static str, String)> {
        let mut expected = format!("at most {}", counted(self.expected_rows, "row", "rows"));
        // Leave out round trips for an embedded store: it is in this process, so its expected
        // number is 0.
        if self.expected_round_trips > 0 {
            let round_trips = u64::from(self.expected_round_trips);
            expected += &format!(", {}", counted(round_trips, "round trip", "round trips"));
        }
        let actual = self.actual.map(|actual| ("actual", actual.to_string()));
        [("expected", expected)].into_iter().chain(actual).collect()
    }
}

/// Writes the whole explanation: the shape, [`facts`](Explanation::facts),
/// [`costs`](Explanation::costs), the sources, and the rejected sort orders.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape.fmt(f)?;
        for (name, text) in self.facts() {
            write!(f, "\n{name}: {text}")?;
        }
        for source in &self.sources {
            write!(f, "\nsource: {}, {}", source.place(), source.bounds)?;
            for request in &source.requests {
                write!(f, "\n  {request}")?;
            }
            if let Some(buckets) = source.buckets_text() {
                write!(f, "\n  read: {buckets}")?;
            }
        }
        for (name, text) in self.costs() {
            write!(f, "\n{name}: {text}")?;
        }
        for rejected in &self.rejected {
            write!(f, "\nnot used: {}: {}", rejected.sort_order, rejected.reason)?;
        }
        Ok(())
    }
}

impl fmt::Display for TableOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::With => "with",
            Self::Against => "against",
        })
    }
}

impl fmt::Display for ActualCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = &self.cost;
        write!(
            f,
            "{} read ({}), {} returned",
            counted(cost.rows_read, "row", "rows"),
            bytes(cost.bytes_read),
            grouped(self.rows_returned),
        )?;
        if cost.round_trips > 0 {
            write!(
                f,
                ", {}",
                counted(cost.round_trips.into(), "round trip", "round trips")
            )?;
        }
        write!(f, ", {}", counted(cost.statements.into(), "request", "requests"))?;
        if cost.seeks > 0 {
            write!(f, ", {}", counted(cost.seeks.into(), "seek", "seeks"))?;
        }
        if cost.buckets > 0 {
            let buckets = counted(cost.buckets.into(), "bucket", "buckets");
            let reads = match cost.directory_reads {
                0 => "range map cached".to_owned(),
                reads => counted(reads.into(), "range map read", "range map reads"),
            };
            write!(f, ", {buckets} ({reads})")?;
        }
        if cost.tombstones > 0 {
            write!(f, ", {}", counted(cost.tombstones, "tombstone", "tombstones"))?;
        }
        write!(f, ", {}", duration(Duration::from_micros(cost.time_micros)))
    }
}

/// Serialization (for `#[serde(with)]`) of a value as the text of its `Display`, which its
/// `FromStr` parses.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

fn write_order<S: Serializer>(order: &[OrderColumn], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&order_text(order))
}

fn order_text(order: &[OrderColumn]) -> String {
    let terms = order.iter().map(|column| {
        let direction = match column.direction {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        };
        format!("{} {direction}", column.field)
    });
    terms.collect::<Vec<_>>().join(", ")
}

fn read_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OrderColumn>, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Do not use the parser of the parameter `order_by` here. It accepts fewer fields than a sort
    // order can have.
    let terms = text.split(", ").filter(|term| !term.is_empty());
    let column = |term: &str| {
        let (field, direction) = term.rsplit_once(' ')?;
        let direction = match direction {
            "asc" => Direction::Ascending,
            "desc" => Direction::Descending,
            _ => return None,
        };
        let field = field.to_owned();
        Some(OrderColumn { field, direction })
    };
    let columns: Option<Vec<_>> = terms.map(column).collect();
    columns.ok_or_else(|| serde::de::Error::custom("an order is fields, each with asc or desc"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn explained() -> Explanation {
        let column = |field: &str, direction| OrderColumn {
            field: field.into(),
            direction,
        };
        Explanation {
            shape: PlanShape {
                sources: Shape::Scan,
                filter_scan: true,
            },
            view: "primary".into(),
            sort_order: "(day), -at, id".parse().unwrap(),
            table: "events".into(),
            intersected: Vec::new(),
            order: vec![
                column("at", Direction::Descending),
                column("id", Direction::Ascending),
            ],
            collate: BTreeMap::new(),
            direction: TableOrder::With,
            sources: vec![ExplainedSource {
                view: String::new(),
                partition: "day = \"mon\"".into(),
                bounds: "the whole partition".into(),
                requests: vec!["a key range".into()],
                buckets: vec![3, 1],
            }],
            filter_scan: vec!["kind = \"alarm\"".into()],
            base_rows: Some(ExplainedBaseRows {
                verified: false,
                looked_up: vec!["note".into()],
                reads_per_row: 1,
            }),
            misfits: MisfitCounts {
                empty: 0,
                too_large: 2,
            },
            row_count: None,
            expected_rows: 10_000,
            expected_round_trips: 1,
            actual: Some(ActualCost {
                cost: PageCost {
                    rows_read: 51,
                    bytes_read: 2_048,
                    buckets: 2,
                    time_micros: 250,
                    ..PageCost::default()
                },
                rows_returned: 50,
            }),
            rejected: vec![RejectedSortOrder {
                sort_order: "view other".into(),
                reason: "it does not order by at".into(),
            }],
        }
    }

    #[test]
    fn json_is_read_back() {
        let explained = explained();
        let json = serde_json::to_value(&explained).unwrap();
        assert_eq!(json["shape"], "scan + filter");
        assert_eq!(json["sort_order"], "(day), -at, id");
        assert_eq!(json["direction"], "with");
        assert_eq!(json["filter_scan"], serde_json::json!(["kind = \"alarm\""]));
        assert_eq!(json["base_rows"]["looked_up"], serde_json::json!(["note"]));
        assert_eq!(json["order"], "at desc, id asc");
        assert_eq!(json["actual"]["rows_read"], 51);
        assert_eq!(json["actual"]["rows_returned"], 50);
        assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), explained);
    }

    #[test]
    fn every_intersected_view_is_shown() {
        let view = |name: &str| ExplainedView {
            view: name.into(),
            sort_order: "(day), -at, id".parse().unwrap(),
            table: format!("events_{name}_1"),
            direction: TableOrder::Against,
        };
        let mut explained = explained();
        explained.intersected = vec![view("one"), view("other")];
        explained.sources[0].view = "one".into();
        if let Some(actual) = &mut explained.actual {
            actual.cost.seeks = 7;
        }
        let json = serde_json::to_value(&explained).unwrap();
        assert_eq!(json["intersected"][1]["table"], "events_other_1");
        assert_eq!(json["sources"][0]["view"], "one");
        assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), explained);
        let text = explained.to_string();
        for line in [
            "\nintersected: one (day), -at, id, events_one_1 read against its clustering order\nintersected: other ",
            "\nsource: one: day = \"mon\"",
            "0 requests, 7 seeks, 2 buckets",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (name, value) in [
            ("shape", "scan + luck"),
            ("sort_order", "day"),
            ("direction", "across"),
            ("order", "at sideways"),
        ] {
            let mut json = serde_json::to_value(explained()).unwrap();
            json[name] = value.into();
            assert!(serde_json::from_value::<Explanation>(json).is_err(), "{name}");
        }
    }

    #[test]
    fn an_order_of_any_length_is_read_back() {
        let mut explained = explained();
        let column = |number: usize| OrderColumn {
            field: format!("f{number}"),
            direction: Direction::Descending,
        };
        explained.order = (0..64).map(column).collect();
        let json = serde_json::to_value(&explained).unwrap();
        assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), explained);
    }

    #[test]
    fn text_has_a_line_for_each_fact() {
        let expected = "scan + filter\nsort order: (day), -at, id\norder: at desc, id asc\n\
            table: events, read with its clustering order\nlacks: 2 records that do not fit (2 too large)\n\
            filter scan: kind = \"alarm\"\n\
            base rows: note looked up in the base table: 1 read more for each row\n\
            source: day = \"mon\", the whole partition\n  a key range\n  read: buckets 3, 1\n\
            expected: at most 10,000 rows, 1 round trip\n\
            actual: 51 rows read (2.0 kB), 50 returned, 0 requests, \
            2 buckets (range map cached), 250 µs\n\
            not used: view other: it does not order by at";
        assert_eq!(explained().to_string(), expected);
    }
}
