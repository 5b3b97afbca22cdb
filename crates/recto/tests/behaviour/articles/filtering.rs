//! Cases of the article *Paging and Filtering with Apache Cassandra*, with one collection for each
//! of its tables.

use recto::{DynamicRecord, ErrorKind, Page, PageQuery, Recto};
use recto_model::Direction;
use recto_model::Value;
use recto_testkit::oracle::{Comparison, Condition, Question};
use serde_json::json;

use crate::common::Subject;
use crate::common::subject::{rows, words};

/// Sample rows of the article *Paging and Filtering with Apache Cassandra*.
pub(super) const ROWS: [[&str; 5]; 7] = [
    ["A01", "B01", "C01", "D01", "01"],
    ["A01", "B01", "C01", "D02", "02"],
    ["A01", "B01", "C02", "D03", "03"],
    ["A01", "B01", "C02", "D04", "04"],
    ["A01", "B02", "C03", "D05", "05"],
    ["A01", "B02", "C03", "D06", "06"],
    ["A02", "B03", "C04", "D07", "07"],
];
/// Page size that the article uses.
pub(super) const SIZE: u32 = 2;

/// Returns the article's table with its seven rows. All tests put the same rows, so they can run
/// concurrently.
async fn table(recto: &Recto) -> Subject {
    let mut subject = Subject::new(recto, "paging_table");
    let row = |[partition, one, two, three, rest]: [&str; 5]| {
        json!({
            "partition": partition, "cluster_01": one, "cluster_02": two, "cluster_03": three,
            "non_primary_key": rest,
        })
    };
    subject.put(ROWS.map(row)).await;
    subject
}

/// Returns the names of a page's rows, for example `D01, D02`. The name of a row is the value of
/// its last clustering column.
pub(super) fn names(page: &Page<DynamicRecord>) -> String {
    words(page, &["cluster_03"])
}

/// Returns all pages of a query. Each page begins after the last row of the previous page.
pub(super) async fn forwards(query: &PageQuery<DynamicRecord>) -> Vec<Page<DynamicRecord>> {
    let mut pages = vec![query.clone().first(SIZE).await.unwrap()];
    while let Some(next) = pages.last().unwrap().next_cursor() {
        pages.push(query.clone().first(SIZE).after(next).await.unwrap());
    }
    pages
}

pub(super) fn all_names(pages: &[Page<DynamicRecord>]) -> Vec<String> {
    pages.iter().map(names).collect()
}

pub(super) async fn previous(
    query: &PageQuery<DynamicRecord>,
    page: &Page<DynamicRecord>,
) -> Page<DynamicRecord> {
    query.clone().last(SIZE).before(page.cursor(0)).await.unwrap()
}

pub(crate) async fn exact_match_ascending(recto: Recto) {
    let table = table(&recto).await;

    // The article prints the first page and the next page. Its query for the next page leaves out
    // `cluster_01 = 'B01'`. The page of two rows does not show the mistake, but the page after it
    // would continue into B02. In Recto, a filter applies to every page, so there is no third page.
    let query = table.text(r#"partition = "A01" AND cluster_01 = "B01""#, "");
    let pages = forwards(&query).await;
    assert_eq!(all_names(&pages), ["D01, D02", "D03, D04"]);
    assert_eq!(
        words(
            &pages[0],
            &["partition", "cluster_01", "cluster_02", "non_primary_key"]
        ),
        "A01 B01 C01 01, A01 B01 C01 02"
    );
    assert_eq!(pages[1].has_next(), Some(false));
    let wider = query.clone().first(100).after(pages[0].cursor(1)).await.unwrap();
    assert_eq!(names(&wider), "D03, D04");

    // The previous page (D05, D06) belongs to the partition, but not to the filter `cluster_01 =
    // 'B01'`. The article's "false start" gets D01 and D02. The correct rows are D03 and D04, in
    // ascending order, without a reversal in the application.
    let query = table.text(r#"partition = "A01""#, "cluster_01");
    let pages = forwards(&query).await;
    assert_eq!(all_names(&pages), ["D01, D02", "D03, D04", "D05, D06"]);
    let back = previous(&query, &pages[2]).await;
    assert_eq!(names(&back), "D03, D04");
    assert_eq!(back.has_previous(), Some(true));
    let first = previous(&query, &back).await;
    assert_eq!(names(&first), "D01, D02");
    assert_eq!(first.has_previous(), Some(false));
}

pub(crate) async fn exact_match_descending(recto: Recto) {
    let table = table(&recto).await;
    let query = table.text(r#"partition = "A01" AND cluster_01 = "B01""#, "cluster_02 desc");
    let pages = forwards(&query).await;
    assert_eq!(all_names(&pages), ["D04, D03", "D02, D01"]);

    // The article's general pattern for the previous page uses DESC, which returns the rows that
    // are furthest before the page (here D06, D05). The correct rows are the nearest ones: D04,
    // D03.
    let query = table.text(r#"partition = "A01""#, "cluster_01 desc");
    let pages = forwards(&query).await;
    assert_eq!(all_names(&pages), ["D06, D05", "D04, D03", "D02, D01"]);
    assert_eq!(names(&previous(&query, &pages[2]).await), "D04, D03");
    assert_eq!(names(&previous(&query, &pages[1]).await), "D06, D05");
}

pub(crate) async fn range_ascending(recto: Recto) {
    let table = table(&recto).await;
    let filter = r#"partition = "A01" AND cluster_01 >= "B01" AND cluster_01 <= "B02""#;
    let query = table.text(filter, "cluster_01");
    let pages = forwards(&query).await;

    // The article prints the first page and the next pages. In its general pattern, the upper bound
    // of a next page comes from filter_begin, ('B01', MAX, MAX). With such a bound, the pages never
    // reach D05 and D06. The bound must come from filter_end.
    assert_eq!(all_names(&pages), ["D01, D02", "D03, D04", "D05, D06"]);
    assert_eq!(names(&previous(&query, &pages[2]).await), "D03, D04");

    // The article adds MIN_TEXT and MAX_TEXT at the ends of ranges. Recto must not need them, for
    // open and closed ranges.
    for (filter, expected) in [
        (r#"cluster_01 > "B01""#, vec!["D05, D06"]),
        (r#"cluster_01 < "B02""#, vec!["D01, D02", "D03, D04"]),
        (r#"cluster_01 > "B01" AND cluster_01 < "B02""#, vec![""]),
        (r#"cluster_01 >= "B02" AND cluster_01 <= "B02""#, vec!["D05, D06"]),
    ] {
        let query = table.text(&format!(r#"partition = "A01" AND {filter}"#), "");
        assert_eq!(all_names(&forwards(&query).await), expected, "{filter}");
    }
}

pub(crate) async fn range_descending(recto: Recto) {
    let table = table(&recto).await;
    let filter = r#"partition = "A01" AND cluster_01 >= "B01" AND cluster_01 <= "B02""#;
    let query = table.text(filter, "cluster_01 desc");
    let pages = forwards(&query).await;
    assert_eq!(all_names(&pages), ["D06, D05", "D04, D03", "D02, D01"]);

    // The article's pattern for the previous page begins after last_result, so it returns rows of
    // page itself (D02 for the page D02, D01). A correct pattern begins at first_result.
    assert_eq!(names(&previous(&query, &pages[2]).await), "D04, D03");
}

/// Reads all pages of a query forwards and backwards, and compares them with the oracle (an
/// independent implementation).
async fn check(table: &Subject, question: &Question) {
    let context = format!(
        "{} / {:?}",
        question.filter_text(&table.definition),
        question.sort
    );
    let query = table.query(question, false);
    let sequence = table.oracle.ask(question);
    let pages = forwards(&query).await;
    let found: Vec<_> = pages.iter().flat_map(rows).collect();
    table.assert_rows(&found, sequence.rows(), &context);
    for (page, earlier) in pages.iter().skip(1).zip(&pages) {
        if !page.is_empty() {
            table.assert_rows(&rows(&previous(&query, page).await), &rows(earlier), &context);
        }
    }
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// Returns two queries of the partition with the given conditions. They sort by the first
/// clustering column without an equality, in both directions.
fn questions(conditions: &[Condition], first_free: usize) -> [Question; 2] {
    let partition = Condition::Compare {
        field: 0,
        comparison: Comparison::Equal,
        value: text("A01"),
    };
    let conditions: Vec<Condition> = [partition]
        .into_iter()
        .chain(conditions.iter().cloned())
        .collect();
    [Direction::Ascending, Direction::Descending].map(|direction| Question {
        conditions: conditions.clone(),
        sort: if first_free <= 3 {
            vec![(first_free, direction)]
        } else {
            Vec::new()
        },
        allow_filter_scan: false,
    })
}

pub(crate) async fn general_patterns_of_exact_match(recto: Recto) {
    let table = table(&recto).await;
    for k in 1..=3 {
        for row in [ROWS[0], ROWS[3], ROWS[5]] {
            let condition = Condition::Tuple {
                fields: (1..=k).collect(),
                comparison: Comparison::Equal,
                values: row[1..=k].iter().map(|value| text(value)).collect(),
            };
            for question in questions(&[condition], k + 1) {
                check(&table, &question).await;
            }
        }
    }
}

pub(crate) async fn general_patterns_of_ranges(recto: Recto) {
    let table = table(&recto).await;
    for k in 1..=3 {
        for (begin, end) in [(0, 5), (1, 3), (2, 4), (4, 4), (5, 0)] {
            let bound = |comparison, row: usize| Condition::Tuple {
                fields: (1..=k).collect(),
                comparison,
                values: ROWS[row][1..=k].iter().map(|value| text(value)).collect(),
            };
            let range = [
                bound(Comparison::GreaterOrEqual, begin),
                bound(Comparison::LessOrEqual, end),
            ];
            for question in questions(&range, 1) {
                check(&table, &question).await;
            }
        }
    }
}

/// Checks that Recto rejects a query without a filter on the partition, and scans nothing. The
/// article says: "It is not possible in general to page without filtering".
pub(crate) async fn paging_without_a_filter(recto: Recto) {
    let table = table(&recto).await;
    let error = table.text("", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
    let error = table.text(r#"cluster_01 = "B01""#, "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
    assert!(
        error.hint().unwrap().contains(r#"partition = ["cluster_01"]"#),
        "{:?}",
        error.hint()
    );
}

/// Checks that one query can list several partitions. The article says: "It may be possible … when
/// the cardinality of partition keys is very low, but we have not explored this".
pub(crate) async fn the_partition_as_a_list(recto: Recto) {
    let table = table(&recto).await;
    let query = table.text(r#"partition = "A02" OR partition = "A01""#, "cluster_01 desc");
    let pages = forwards(&query).await;
    assert_eq!(all_names(&pages), ["D07, D06", "D05, D04", "D03, D02", "D01"]);
    assert_eq!(names(&previous(&query, &pages[3]).await), "D03, D02");
}
