//! Text output of `recto buckets`: one line for each bucket (range of a partition), with a bar of
//! its size.

use std::time::Duration;

use recto::session::{
    BucketFigures, BucketList, BucketPartition, BucketPartitions, BucketStatus, BucketTarget, JsonRecord,
    RebalanceReport,
};
use serde_json::Value as Json;

use super::bar::{BAR_WIDTH, Scale};
use crate::console::{Console, Tone};
use crate::failure::Result;
use crate::table::{Table, cell_text, cut};
use crate::text::{bytes, counted, duration, grouped, printable, rows};

/// Width in columns of the mark after a bar whose size is above the target.
const MARK_WIDTH: usize = 2;
/// Number of columns around a bar: a space before it, and a mark after it.
const AROUND_BAR: usize = 2 + MARK_WIDTH;
/// Minimum width in columns of the table beside the bars. Narrower terminals show no bars.
const MIN_TABLE_WIDTH: usize = 30;
/// Title of the column for rows that splits and joins have in other buckets.
const OLD_BUCKETS: &str = "in old buckets";

/// Prints the list of partitions, with the size of each partition's largest bucket compared to the target.
pub(super) fn partitions(listed: &BucketPartitions, console: &mut Console) -> Result<()> {
    let title = name(&listed.collection, &listed.view);
    let partitions = &listed.partitions;
    if partitions.is_empty() && listed.next_page_token.is_empty() {
        console.line(format_args!("{} has no partitions yet.", printable(&title)))?;
        return Ok(());
    }
    let names: Vec<String> = fields(partitions.iter().map(|one| &one.partition));
    let mut columns: Vec<(&str, bool, Vec<String>)> = Vec::new();
    let of_each = |text: &dyn Fn(&BucketPartition) -> String| partitions.iter().map(text).collect();
    for name in &names {
        let value = |one: &BucketPartition| cell(one.partition.get(name));
        columns.push((name, false, of_each(&value)));
    }
    let least = |one: &BucketPartition, said: String| if one.at_least { format!("≥ {said}") } else { said };
    columns.push(("buckets", true, of_each(&|one| grouped(one.buckets))));
    columns.push(("largest", true, of_each(&|one| size(listed.target, one.largest))));
    columns.push(("bytes", true, of_each(&|one| least(one, bytes_of(one.figures)))));
    columns.push(("rows", true, of_each(&|one| least(one, rows_of(one.figures)))));
    if partitions.iter().any(|one| one.leftover.bytes > 0) {
        columns.push((OLD_BUCKETS, true, of_each(&|one| leftover(one.leftover))));
    }
    if partitions.iter().any(|one| one.being_cut) {
        let cutting = |one: &BucketPartition| if one.being_cut { "yes" } else { "" }.to_owned();
        columns.push(("splitting", false, of_each(&cutting)));
    }
    let largest: Vec<u64> = partitions
        .iter()
        .map(|one| listed.target.measure(one.largest))
        .collect();
    draw(columns, listed.target, &largest, console)?;
    let over: u64 = partitions.iter().map(|one| one.too_large).sum();
    // The list is a part if more pages follow. The last page counts as the whole list, even if
    // pages precede it: the reply does not show whether there is a previous page.
    let shown = Shown {
        count: counted(partitions.len() as u64, "partition", "partitions"),
        is_part: !listed.next_page_token.is_empty(),
        over,
    };
    footer(&shown.parts(&title, listed.target), console)?;
    if partitions.iter().any(|one| one.figures.rows_error > 0) {
        estimated(console)?;
    }
    more(&listed.next_page_token, "next page", console)
}

/// Prints the list of buckets of one partition.
pub(super) fn buckets(listed: &BucketList, console: &mut Console) -> Result<()> {
    let buckets = &listed.buckets;
    let of_each = |text: &dyn Fn(&BucketStatus) -> String| buckets.iter().map(text).collect();
    let place = |index: usize| listed.places.contains(&Some(index));
    let mut columns: Vec<(&str, bool, Vec<String>)> = Vec::new();
    if listed.places.iter().any(Option::is_some) {
        let mark = |index: usize| if place(index) { "→" } else { "" }.to_owned();
        columns.push(("", false, (0..buckets.len()).map(mark).collect()));
    }
    columns.push(("bucket", true, of_each(&|one| one.bucket.to_string())));
    let figures = [("bytes", bytes_of as fn(_) -> _), ("rows", rows_of)];
    let [measured, other] = match listed.target.rows {
        Some(_) => [figures[1], figures[0]],
        None => figures,
    };
    let figure = |(name, text): (&'static str, fn(BucketFigures) -> String)| {
        (name, true, buckets.iter().map(|one| text(one.figures)).collect())
    };
    // The table hides its last columns if not all columns fit, so add the most important columns first.
    columns.push(figure(measured));
    columns.push((
        "from",
        false,
        of_each(&|one| edge(Some(&one.start), "the beginning")),
    ));
    if buckets.iter().any(|one| one.step != "at_rest") {
        columns.push(("split", false, of_each(&step)));
    }
    columns.push(figure(other));
    if buckets.iter().any(|one| one.leftover.bytes > 0) {
        columns.push((OLD_BUCKETS, true, of_each(&|one| leftover(one.leftover))));
    }
    columns.push((
        "to before",
        false,
        of_each(&|one| edge(one.end.as_deref(), "the end")),
    ));
    let sizes: Vec<u64> = buckets
        .iter()
        .map(|one| listed.target.measure(one.figures))
        .collect();
    draw(columns, listed.target, &sizes, console)?;
    let partition: Vec<String> = listed
        .partition
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let mut title = name(&listed.collection, &listed.view);
    if !partition.is_empty() {
        title = format!("{title}, {}", partition.join(", "));
    }
    let over = buckets.iter().filter(|one| one.too_large).count();
    let shown = Shown {
        count: listed.counted(),
        is_part: !listed.next_page_token.is_empty() || !listed.previous_page_token.is_empty(),
        over: over as u64,
    };
    footer(&shown.parts(&title, listed.target), console)?;
    if !listed.exact {
        estimated(console)?;
    }
    more(&listed.previous_page_token, "previous page", console)?;
    more(&listed.next_page_token, "next page", console)
}

fn leftover(figures: BucketFigures) -> String {
    match figures.bytes {
        0 => String::new(),
        _ => bytes_of(figures),
    }
}

/// Prints the result of `recto buckets --rebalance`, which splits too large buckets.
pub(super) fn rebalanced(
    report: &RebalanceReport,
    clears: bool,
    elapsed: Duration,
    console: &mut Console,
) -> Result<()> {
    let done = console.paint(Tone::Good, "✓");
    let looked = counted(report.partitions, "partition", "partitions");
    let there = counted(report.buckets, "bucket", "buckets");
    let made = match report.created {
        0 => "no bucket was too large".to_owned(),
        made => format!(
            "{} created by splits",
            counted(made, "bucket was", "buckets were")
        ),
    };
    console.line(format_args!(
        "{done} {looked}, {there}; {made}, in {}",
        duration(elapsed)
    ))?;
    let mut others = Vec::new();
    if report.joined > 0 {
        let joined = counted(report.joined, "key range was", "key ranges were");
        others.push((Tone::Plain, format!("{joined} joined")));
    }
    if report.deleted > 0 {
        let deleted = counted(
            report.deleted,
            "record older than `keep` was",
            "records older than `keep` were",
        );
        others.push((Tone::Plain, format!("{deleted} deleted")));
    }
    if report.completed > 0 {
        let cuts = counted(
            report.completed,
            "interrupted split was",
            "interrupted splits were",
        );
        others.push((Tone::Plain, format!("{cuts} completed")));
    }
    if report.cleared > 0 {
        let left = counted(
            report.cleared,
            "leftover of a split was",
            "leftovers of splits were",
        );
        others.push((Tone::Plain, format!("{left} cleared")));
    }
    if report.to_clear > 0 {
        let left = counted(
            report.to_clear,
            "leftover of a split remains:",
            "leftovers of splits remain:",
        );
        let how = if clears { "" } else { "; --clear waits for that" };
        let who = "a process that has the store open clears leftovers an hour after the split";
        others.push((Tone::Dim, format!("{left} {who}{how}")));
    }
    if report.too_large > 0 {
        let large = counted(report.too_large, "bucket is", "buckets are");
        others.push((
            Tone::Warning,
            format!("{large} still over the target: Recto cannot split a bucket of one row"),
        ));
    }
    for (tone, text) in others {
        let text = console.paint(tone, &text);
        console.line(format_args!("  {text}"))?;
    }
    Ok(())
}

/// Returns the name of a sort order: `COLLECTION` for the primary sort order, otherwise
/// `COLLECTION.VIEW`.
fn name(collection: &str, view: &str) -> String {
    if collection == view {
        collection.to_owned()
    } else {
        format!("{collection}.{view}")
    }
}

/// Prints a table with a bar after each line, if the terminal is wide enough.
fn draw(
    columns: Vec<(&str, bool, Vec<String>)>,
    target: BucketTarget,
    sizes: &[u64],
    console: &mut Console,
) -> Result<()> {
    let room = console
        .width()
        .map(|width| width.saturating_sub(BAR_WIDTH + AROUND_BAR));
    let has_bars = room.is_none_or(|room| room >= MIN_TABLE_WIDTH);
    let without = || console.width().map(|width| width.saturating_sub(MARK_WIDTH));
    let width = if has_bars { room } else { without() };
    let scale = Scale::new(target.drawn(), sizes.iter().copied().max().unwrap_or(0));
    let lines = Table::of_columns(columns, width).filled().lines(console);
    for (number, line) in lines.iter().enumerate() {
        let size = number.checked_sub(2).and_then(|row| sizes.get(row));
        let is_over = size.is_some_and(|size| *size > target.most());
        let mark = if is_over {
            console.paint(Tone::Bad, " !")
        } else {
            String::new()
        };
        let line = match size.filter(|_| has_bars) {
            Some(size) => format!("{line}  {}{mark}", scale.bar(*size, console)),
            None => format!("{line}{mark}"),
        };
        console.line(line.trim_end())?;
    }
    Ok(())
}

/// Returns the names of all fields that any record has, in the order of their first appearance.
fn fields<'r>(records: impl Iterator<Item = &'r JsonRecord>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in records.flat_map(JsonRecord::keys) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn cell(value: Option<&Json>) -> String {
    value.and_then(cell_text).unwrap_or_else(|| "null".to_owned())
}

fn edge(values: Option<&[Json]>, none: &str) -> String {
    match values {
        None | Some([]) => none.to_owned(),
        Some(values) => {
            let values: Vec<String> = values.iter().map(|value| cell(Some(value))).collect();
            cut(&values.join(", "), 60)
        }
    }
}

fn step(bucket: &BucketStatus) -> String {
    let other = bucket.other.unwrap_or_default();
    match bucket.step.as_str() {
        "at_rest" => String::new(),
        "announced" => format!("1/5 to {other}: announced"),
        "copying" => format!("2/5 to {other}: copying"),
        "switched" => format!("4/5 from {other}: read here"),
        "left" => format!("5/5 from {other}: to be cleared"),
        step => printable(step),
    }
}

fn rows_of(figures: BucketFigures) -> String {
    with_error(grouped(figures.rows), figures.rows_error, grouped)
}

fn bytes_of(figures: BucketFigures) -> String {
    with_error(bytes(figures.bytes), figures.bytes_error, bytes)
}

fn with_error(said: String, error: u64, text: fn(u64) -> String) -> String {
    match error {
        0 => said,
        error => format!("{said} ± {}", text(error)),
    }
}

/// Returns a size as text: in rows if the target is in rows, otherwise in bytes.
fn size(target: BucketTarget, figures: BucketFigures) -> String {
    match target.rows {
        Some(_) => rows_of(figures),
        None => bytes_of(figures),
    }
}

fn target_of(target: BucketTarget) -> String {
    let most = match (target.rows, target.bytes) {
        (Some(most), _) => rows(most),
        (None, Some(most)) => bytes(most),
        (None, None) => return "by time, without a target".to_owned(),
    };
    let shards = target.shards.map(|shards| format!(" in {shards} shards"));
    format!("target {most}{} (│)", shards.unwrap_or_default())
}

/// Counts for the summary line below a list of buckets or partitions.
struct Shown {
    count: String,
    /// True if other pages have more partitions or buckets.
    is_part: bool,
    /// Number of listed buckets that are larger than the target.
    over: u64,
}

impl Shown {
    /// Returns the parts of the summary line below the table.
    fn parts(&self, title: &str, target: BucketTarget) -> Vec<String> {
        let title = printable(title);
        let here = if self.is_part { " on this page" } else { "" };
        let mut parts = vec![format!("{}{here} of {title}", self.count), target_of(target)];
        // Buckets that cover a time span have no target size, so do not compare them with one.
        if target.rows.is_some() || target.bytes.is_some() {
            parts.push(match self.over {
                0 => format!("none{here} is over the target"),
                over if self.is_part => {
                    format!(
                        "{} over the target on this page (!)",
                        counted(over, "bucket is", "buckets are")
                    )
                }
                over => format!(
                    "{} over the target (!)",
                    counted(over, "bucket is", "buckets are")
                ),
            });
        }
        parts
    }
}

/// Prints a note about the accuracy of estimated sizes.
fn estimated(console: &mut Console) -> Result<()> {
    let line =
        "sizes are estimates; while rows arrive faster than Recto splits, a bucket can pass the target";
    footer(&[line.to_owned()], console)
}

fn footer(parts: &[String], console: &mut Console) -> Result<()> {
    let footer = console.paint(Tone::Dim, &parts.join(" · "));
    console.line(footer)?;
    Ok(())
}

fn more(token: &str, what: &str, console: &mut Console) -> Result<()> {
    if !token.is_empty() {
        let what = console.paint(Tone::Dim, &format!("{what}: --page-token"));
        console.line(format_args!("{what} {token}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TARGET: BucketTarget = BucketTarget {
        bytes: Some(10_000_000),
        rows: None,
        shards: Some(8),
    };

    fn figures(rows: u64, bytes: u64, error_percent: u64) -> BucketFigures {
        BucketFigures {
            rows,
            rows_error: rows * error_percent / 100,
            bytes,
            bytes_error: bytes * error_percent / 100,
        }
    }

    fn record(json: &Json) -> JsonRecord {
        json.as_object().cloned().unwrap_or_default()
    }

    fn drawn(width: Option<u16>, draw: impl FnOnce(&mut Console) -> Result<()>) -> String {
        let (mut console, screen) = Console::captured(width.unwrap_or(100));
        if width.is_none() {
            console = console.piped();
        }
        draw(&mut console).unwrap_or_else(|failure| panic!("{failure:?}"));
        let out = screen.out();
        let fits = |line: &str| width.is_none_or(|width| line.chars().count() <= usize::from(width));
        let mut table = out.lines().take_while(|line| !line.contains(" · "));
        assert!(table.all(fits), "{out}");
        out
    }

    fn listed() -> BucketList {
        let day = |day: u32| vec![json!(format!("2026-11-{day:02}T00:00:00.000Z")), json!("a")];
        let bucket = |bucket: u64, from: Option<u32>, to: Option<u32>, figures: BucketFigures| BucketStatus {
            bucket,
            start: from.map(day).unwrap_or_default(),
            end: to.map(day),
            figures,
            leftover: BucketFigures::default(),
            too_large: figures.bytes > 10_000_000,
            step: "at_rest".to_owned(),
            other: None,
        };
        let cut = |mut bucket: BucketStatus, step: &str, other: u64| {
            step.clone_into(&mut bucket.step);
            bucket.other = Some(other);
            bucket.leftover = bucket.figures;
            bucket
        };
        BucketList {
            collection: "events".to_owned(),
            view: "by_kind".to_owned(),
            partition: record(&json!({ "kind": "alarm", "site": 7 })),
            order: vec!["-at".to_owned(), "id".to_owned()],
            target: TARGET,
            exact: false,
            buckets: vec![
                bucket(0, None, Some(24), figures(39_000, 8_123_456, 41)),
                cut(
                    bucket(12, Some(24), Some(20), figures(80_000, 13_400_000, 36)),
                    "copying",
                    14,
                ),
                cut(
                    bucket(13, Some(20), Some(11), figures(20_000, 4_000_000, 60)),
                    "left",
                    12,
                ),
                bucket(3, Some(11), None, figures(0, 0, 0)),
            ],
            places: vec![Some(1), None],
            next_page_token: "bmV4dA".to_owned(),
            previous_page_token: "YmVmb3Jl".to_owned(),
        }
    }

    #[test]
    fn buckets_are_drawn_against_the_target() {
        let listed = listed();
        let mut all = String::new();
        for width in [None, Some(140), Some(80), Some(40)] {
            all += &format!("--- {width:?}\n");
            all += &drawn(width, |console| buckets(&listed, console));
        }
        insta::assert_snapshot!(all);
    }

    #[test]
    fn counted_rows_have_no_error_and_what_was_never_cut_no_edges() {
        let target = BucketTarget {
            rows: Some(1_000),
            bytes: None,
            shards: None,
        };
        let one = |rows| BucketList {
            collection: "log".to_owned(),
            view: "log".to_owned(),
            target,
            exact: true,
            buckets: vec![BucketStatus {
                figures: figures(rows, rows * 100, 0),
                step: "at_rest".to_owned(),
                ..BucketStatus::default()
            }],
            ..BucketList::default()
        };
        let mut all = drawn(Some(100), |console| buckets(&one(7), console));
        all += &drawn(Some(100), |console| buckets(&one(1_000), console));
        insta::assert_snapshot!(all);
    }

    #[test]
    fn partitions_are_drawn_with_their_largest_bucket() {
        let partition = |kind: &str, buckets: u64, rows: u64, largest: u64| BucketPartition {
            partition: record(&json!({ "kind": kind, "site": 7 })),
            buckets,
            figures: figures(rows, rows * 500, 9),
            leftover: BucketFigures::default(),
            largest: figures(largest / 500, largest, 40),
            too_large: u64::from(largest > 10_000_000),
            being_cut: kind == "door",
            at_least: kind == "all",
        };
        let listed = BucketPartitions {
            collection: "events".to_owned(),
            view: "by_kind".to_owned(),
            target: TARGET,
            partitions: vec![
                partition("alarm", 4, 139_000, 13_400_000),
                partition("door", 1, 12, 6_000),
                partition("all", 4_096, 31_000_000, 9_900_000),
            ],
            next_page_token: String::new(),
        };
        let mut all = drawn(Some(100), |console| partitions(&listed, console));
        all += &drawn(None, |console| partitions(&listed, console));
        let none = BucketPartitions {
            partitions: Vec::new(),
            ..listed
        };
        all += &drawn(Some(100), |console| partitions(&none, console));
        insta::assert_snapshot!(all);
    }

    #[test]
    fn reports_what_was_rebalanced() {
        let report = RebalanceReport {
            partitions: 2,
            buckets: 12,
            created: 10,
            joined: 64,
            completed: 1,
            too_large: 1,
            cleared: 0,
            to_clear: 9,
            deleted: 48_319,
        };
        let time = Duration::from_millis(31_200);
        let mut all = drawn(None, |console| rebalanced(&report, false, time, console));
        let cleared = RebalanceReport {
            cleared: 9,
            partitions: 1,
            buckets: 12,
            ..RebalanceReport::default()
        };
        all += &drawn(None, |console| rebalanced(&cleared, true, time, console));
        insta::assert_snapshot!(all);
    }
}
