//! Cases of the article *Paging and Filtering with Apache Cassandra*, served by views. The article
//! says: "to support arbitrary combinations of filters … tables must be created and maintained",
//! and "maintaining consistency between these tables is not the scope of this document". Recto
//! maintains such tables as views. The tests use one collection, six composite views, and every
//! combination of the four filters.

use std::collections::BTreeSet;

use futures::future::join_all;
use recto::{Collection, DynamicRecord, ErrorKind, Page, PageQuery, Recto};
use serde_json::json;

use super::filtering::{ROWS, SIZE, all_names, forwards, names, previous};
use crate::common::exact::assert_views_are_exact;

const FIELDS: [&str; 5] = [
    "partition",
    "cluster_01",
    "cluster_02",
    "cluster_03",
    "non_primary_key",
];
/// Columns of each view, as indexes of fields. The first column is the partition. A view serves
/// equality on its first columns, in the order of its other columns. Six is the minimum number of
/// views that serve every set of the four filters.
const VIEWS: [[usize; 4]; 6] = [
    [0, 1, 2, 3],
    [1, 2, 3, 0],
    [2, 3, 0, 1],
    [3, 0, 1, 2],
    [0, 2, 1, 3],
    [1, 3, 0, 2],
];

type Row = [String; 5];

/// Query that one view serves: equality on its first columns, optionally a range on the next
/// column, in the order of the other columns.
struct ViewQuery {
    view: [usize; 4],
    equal: usize,
    like: Row,
    range: Option<(String, String)>,
    descending: bool,
}

impl ViewQuery {
    fn filter(&self) -> String {
        let quoted = |value: &str| format!("\"{value}\"");
        let equal = self.view[..self.equal].iter();
        let mut conditions: Vec<String> = equal
            .map(|&field| format!("{} = {}", FIELDS[field], quoted(&self.like[field])))
            .collect();
        if let Some((least, most)) = &self.range {
            let field = FIELDS[self.view[self.equal]];
            conditions.push(format!("{field} >= {}", quoted(least)));
            conditions.push(format!("{field} <= {}", quoted(most)));
        }
        conditions.join(" AND ")
    }

    fn sort(&self) -> String {
        let direction = if self.descending { " desc" } else { "" };
        let columns = self.order().into_iter();
        let columns: Vec<String> = columns
            .map(|field| FIELDS[field].to_owned() + direction)
            .collect();
        columns.join(", ")
    }

    /// Returns the indexes of the columns by which the result is ordered: the columns without an
    /// equality, then the key.
    fn order(&self) -> Vec<usize> {
        let free = self.view[self.equal..].iter().copied();
        free.chain([4]).collect()
    }

    /// Returns the names of the rows that the query must return, as one string for each page.
    fn expected(&self, rows: &[Row]) -> Vec<String> {
        let is_in_range = |row: &Row| {
            let bounds = self.range.as_ref();
            bounds.is_none_or(|(least, most)| (least..=most).contains(&&row[self.view[self.equal]]))
        };
        let is_like = |row: &Row| {
            self.view[..self.equal]
                .iter()
                .all(|&field| row[field] == self.like[field])
        };
        let mut found: Vec<&Row> = rows
            .iter()
            .filter(|row| is_like(row) && is_in_range(row))
            .collect();
        found.sort_by_key(|row| {
            self.order()
                .into_iter()
                .map(|field| row[field].clone())
                .collect::<Vec<_>>()
        });
        if self.descending {
            found.reverse();
        }
        let pages = found.chunks(SIZE as usize);
        let pages = pages.map(|page| {
            page.iter()
                .map(|row| row[3].as_str())
                .collect::<Vec<_>>()
                .join(", ")
        });
        let pages: Vec<String> = pages.collect();
        if pages.is_empty() {
            vec![String::new()]
        } else {
            pages
        }
    }
}

fn sample() -> Vec<Row> {
    ROWS.iter().map(|row| row.map(str::to_owned)).collect()
}

async fn put(table: &Collection<DynamicRecord>, row: &Row) {
    let record = json!({
        "partition": row[0], "cluster_01": row[1], "cluster_02": row[2], "cluster_03": row[3],
        "non_primary_key": row[4],
    });
    let record = DynamicRecord::from_json(table.definition(), record.as_object().unwrap()).unwrap();
    table.put(&record).await.unwrap();
}

/// Compares the first, next and previous pages of all queries that the views serve with the
/// expected rows.
async fn check_all(table: &Collection<DynamicRecord>, rows: &[Row]) {
    let mut sets = BTreeSet::new();
    let mut questions = Vec::new();
    for view in VIEWS {
        for equal in 1..=view.len() {
            sets.insert(view[..equal].iter().copied().collect::<BTreeSet<_>>());
            for like in rows {
                for descending in [false, true] {
                    questions.push(asked(view, equal, like, None, descending));
                    if let Some(&next) = view.get(equal) {
                        let end = rows[4][next].clone();
                        let bounds = [like[next].clone().min(end.clone()), like[next].clone().max(end)];
                        questions.push(asked(view, equal, like, Some(bounds), descending));
                    }
                }
            }
        }
    }
    assert_eq!(sets.len(), 15, "every combination of the four filters");
    for some in questions.chunks(32) {
        join_all(some.iter().map(|asked| check(table, rows, asked))).await;
    }
}

fn asked(
    view: [usize; 4],
    equal: usize,
    like: &Row,
    range: Option<[String; 2]>,
    descending: bool,
) -> ViewQuery {
    ViewQuery {
        view,
        equal,
        like: like.clone(),
        range: range.map(|[least, most]| (least, most)),
        descending,
    }
}

async fn check(table: &Collection<DynamicRecord>, rows: &[Row], asked: &ViewQuery) {
    let (filter, sort) = (asked.filter(), asked.sort());
    let query: PageQuery<DynamicRecord> = table.query().filter(filter.clone()).order_by(sort.clone());
    let pages: Vec<Page<DynamicRecord>> = forwards(&query).await;
    assert_eq!(all_names(&pages), asked.expected(rows), "{filter} / {sort}");
    assert_eq!(pages[0].has_previous(), Some(false));
    for (page, earlier) in pages.iter().skip(1).zip(&pages) {
        let back = previous(&query, page).await;
        assert_eq!(
            names(&back),
            names(earlier),
            "before {} of {filter} / {sort}",
            names(page)
        );
    }
}

pub(crate) async fn every_combination_of_filters(recto: Recto) {
    let table = recto.dynamic("sales").unwrap();
    let mut rows = sample();
    join_all(rows.iter().map(|row| put(&table, row))).await;
    // The article prints three results: the first page, the next page, and the previous page (D05,
    // D06), "order-reversed".
    let query = table
        .query()
        .filter(r#"partition = "A01" AND cluster_01 = "B01""#);
    assert_eq!(all_names(&forwards(&query).await), ["D01, D02", "D03, D04"]);
    let query = table
        .query()
        .filter(r#"partition = "A01""#)
        .order_by("cluster_01");
    let pages = forwards(&query).await;
    assert_eq!(names(&pages[2]), "D05, D06");
    assert_eq!(names(&previous(&query, &pages[2]).await), "D03, D04");
    check_all(&table, &rows).await;

    // The article warns: "If these tables become inconsistent with respect to each other". In this
    // test, records move between partitions, and every view must stay consistent.
    table.update("02").set("cluster_01", "B02").await.unwrap();
    table
        .update("04")
        .set("partition", "A02")
        .set("cluster_02", "C01")
        .await
        .unwrap();
    table.delete("06").await.unwrap();
    "B02".clone_into(&mut rows[1][1]);
    "A02".clone_into(&mut rows[3][0]);
    "C01".clone_into(&mut rows[3][2]);
    rows.remove(5);
    check_all(&table, &rows).await;
    assert_eq!(assert_views_are_exact(&recto, "sales").await, 6);

    // A cursor created before the changes must continue after the old position of its row.
    let after = query.clone().first(SIZE).after(pages[0].cursor(1)).await.unwrap();
    assert_eq!(names(&after), "D03, D02");
    // The article says: "It is not possible in general to page result sets when no filters are
    // used." Recto must reject a query without filters.
    assert_eq!(table.query().await.unwrap_err().kind(), ErrorKind::NoPlan);
}
