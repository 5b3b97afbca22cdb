//! How a query is answered, as data: its JSON is what HTTP and `explain --json` write, its `Display` is for people.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use recto_model::schema::{ArrangedBy, OrderColumn};
use recto_model::table::Direction;
use recto_plan::PlanShape;
use recto_plan::text::FilterText;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PageCost;
use crate::text::{bytes, counted, duration, grouped};
use recto_api::misfits::MisfitCounts;

/// The most buckets of a source whose numbers people are shown.
const MAX_BUCKETS_SHOWN: usize = 8;

/// How a query would be (or was) answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// How it is found. In JSON it is text: `empty`, `scan`, `concat`, `merge` or `intersect`, with `+ filter` where
    /// rows are checked one by one.
    #[serde(with = "text")]
    pub shape: PlanShape,
    /// The view that is read, by its name; `primary` is the collection's own sort order. Of several that are intersected the one
    /// whose rows are shown.
    #[serde(default)]
    pub view: String,
    /// How it is arranged. In JSON it is text: `(carrier), -time_hour, flight`.
    #[serde(with = "text")]
    pub sort_order: ArrangedBy,
    /// The table.
    pub table: String,
    /// The views whose common records are shown, each a source; absent if one is read alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intersected: Vec<ExplainedView>,
    /// The query's total order. In JSON it is text as in `order_by`: `time_hour desc, flight asc`.
    #[serde(serialize_with = "write_order", deserialize_with = "read_order")]
    pub order: Vec<OrderColumn>,
    /// The collation of each field of the order whose text sorts by one; absent if none does.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collate: BTreeMap<String, String>,
    /// Which way slices are read.
    pub direction: TableOrder,
    /// What is read, a source each.
    pub sources: Vec<ExplainedSource>,
    /// Conditions checked row by row. In JSON each is filter text.
    #[serde(with = "texts")]
    pub filter_scan: Vec<FilterText>,
    /// What is read of the base table for each row of a view; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_rows: Option<ExplainedBaseRows>,
    /// Maximum number of records that the view lacks because they do not fit it; absent if it lacks none.
    #[serde(default, skip_serializing_if = "MisfitCounts::is_none")]
    pub misfits: MisfitCounts,
    /// The most rows the page reads.
    pub expected_rows: u64,
    /// The most sequential round-trip stages.
    pub expected_round_trips: u32,
    /// What it did cost, where it was run; never where that would count rows that the session's row
    /// filter hides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<ActualCost>,
    /// The other sort orders, and why they were not taken.
    pub rejected: Vec<RejectedSortOrder>,
}

/// Which way slices are read: with the table's clustering order or against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableOrder {
    /// From the first row to the last.
    With,
    /// From the last row to the first.
    Against,
}

/// One of several views that are intersected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedView {
    /// Its name.
    pub view: String,
    /// How it is arranged. In JSON it is text: `(carrier), -time_hour, flight`.
    #[serde(with = "text")]
    pub sort_order: ArrangedBy,
    /// Its table.
    pub table: String,
    /// Which way slices of it are read.
    pub direction: TableOrder,
}

/// As [`facts`](Explanation::facts) tell it.
impl fmt::Display for ExplainedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, {} read {} its clustering order",
            self.view, self.sort_order, self.table, self.direction
        )
    }
}

/// One source of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedSource {
    /// The view that it is of, where several are intersected; else it is absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub view: String,
    /// The partition: `carrier = "UA"`.
    pub partition: String,
    /// The bounds in clustering order: `time_hour > …`.
    pub bounds: String,
    /// Requests to the store: CQL statements, or a key range. Empty for a table in buckets if the session's row
    /// filter hides rows of it, because requests name the keys where buckets begin and end.
    pub requests: Vec<String>,
    /// Of what is kept in buckets, where the page was run: the numbers of those that were asked for rows, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<u64>,
}

impl ExplainedSource {
    /// The partition, with the view where several are intersected.
    pub fn place(&self) -> String {
        match &*self.view {
            "" => self.partition.clone(),
            view => format!("{view}: {}", self.partition),
        }
    }

    /// The buckets as text, `buckets 5, 2`, if there are any.
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

/// Why the base row of each row of a view is read, after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedBaseRows {
    /// Whether a row is shown only if its base row says that its record stands there.
    pub verified: bool,
    /// The fields that the view lacks and that are looked up there.
    pub looked_up: Vec<String>,
    /// How many rows more that is, for each row of the view.
    pub reads_per_row: u32,
}

/// As [`facts`](Explanation::facts) tell it.
impl fmt::Display for ExplainedBaseRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.verified {
            f.write_str("a row is shown if its base row, read after it, says that its record stands there")?;
        }
        if !self.looked_up.is_empty() {
            let before = if self.verified { "; " } else { "" };
            write!(f, "{before}{} looked up there", self.looked_up.join(", "))?;
        }
        let more = counted(self.reads_per_row.into(), "read", "reads");
        write!(f, ": {more} more for each row")
    }
}

/// What a page that was explained did cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActualCost {
    /// What reading it cost.
    #[serde(flatten)]
    pub cost: PageCost,
    /// Rows that it returned.
    pub rows_returned: u64,
}

/// A sort order that was not taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedSortOrder {
    /// What it is called.
    pub sort_order: String,
    /// Why not.
    pub reason: String,
}

impl Explanation {
    /// The order as text: `time_hour desc, flight asc`.
    pub fn order_text(&self) -> String {
        order_text(&self.order)
    }

    /// What is read and in which order, a name and a text each, for people.
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
        let conditions = conditions.map(|condition| ("row by row", condition.to_string()));
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

    /// What it costs, a name and a text each, for people.
    pub fn costs(&self) -> Vec<(&'static str, String)> {
        let mut expected = format!("at most {}", counted(self.expected_rows, "row", "rows"));
        // An embedded store is in this process: there is nothing to go to.
        if self.expected_round_trips > 0 {
            let round_trips = u64::from(self.expected_round_trips);
            expected += &format!(", {}", counted(round_trips, "round trip", "round trips"));
        }
        let actual = self.actual.map(|actual| ("actual", actual.to_string()));
        [("expected", expected)].into_iter().chain(actual).collect()
    }
}

/// The same lines as [`facts`](Explanation::facts) and [`costs`](Explanation::costs), with the sources and what was
/// not taken.
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
                write!(f, "\n  asked: {buckets}")?;
            }
        }
        for (name, text) in self.costs() {
            write!(f, "\n{name}: {text}")?;
        }
        for rejected in &self.rejected {
            write!(f, "\nnot taken: {}: {}", rejected.sort_order, rejected.reason)?;
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
                0 => "directory known".to_owned(),
                reads => counted(reads.into(), "directory read", "directory reads"),
            };
            write!(f, ", {buckets} ({reads})")?;
        }
        if cost.tombstones > 0 {
            write!(f, ", {}", counted(cost.tombstones, "tombstone", "tombstones"))?;
        }
        write!(f, ", {}", duration(Duration::from_micros(cost.time_micros)))
    }
}

/// What is text in JSON, of a type that reads what it writes.
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

/// The same of a list.
mod texts {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
    {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let values = texts.iter().map(|text| text.parse().map_err(D::Error::custom));
        values.collect()
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
    // Not by the parser of sorts: nobody sorts by as many fields as an order may have.
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
    use recto_plan::Shape;

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
            filter_scan: vec!["kind = \"alarm\"".parse().unwrap()],
            base_rows: Some(ExplainedBaseRows {
                verified: false,
                looked_up: vec!["note".into()],
                reads_per_row: 1,
            }),
            misfits: MisfitCounts {
                empty: 0,
                too_large: 2,
            },
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
    fn conditions_are_read_back_as_they_are_told() {
        for text in [
            r#"kind = "a" OR kind = "b""#,
            "at >= 5 AND at < 7",
            "(at, id) > (5, true)",
            &format!("kind = \"{}\"", "long".repeat(4_096)),
        ] {
            let mut explained = explained();
            explained.filter_scan = vec![text.parse().unwrap()];
            let json = serde_json::to_value(&explained).unwrap();
            assert_eq!(json["filter_scan"][0], text);
            assert_eq!(serde_json::from_value::<Explanation>(json).unwrap(), explained);
        }
    }

    #[test]
    fn views_that_are_intersected_are_told_each() {
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
    fn what_is_no_explanation_is_refused() {
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
    fn people_read_a_line_a_fact() {
        let expected = "scan + filter\nsort order: (day), -at, id\norder: at desc, id asc\n\
            table: events, read with its clustering order\nlacks: 2 records that do not fit (2 too large)\n\
            row by row: kind = \"alarm\"\n\
            base rows: note looked up there: 1 read more for each row\n\
            source: day = \"mon\", the whole partition\n  a key range\n  asked: buckets 3, 1\n\
            expected: at most 10,000 rows, 1 round trip\n\
            actual: 51 rows read (2.0 kB), 50 returned, 0 requests, \
            2 buckets (directory known), 250 µs\n\
            not taken: view other: it does not order by at";
        assert_eq!(explained().to_string(), expected);
    }
}
