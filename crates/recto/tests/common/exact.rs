//! Comparison of views with the records of their collections.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use recto::Recto;
use recto::schema::Nulls;
use recto::session::VerifyRequest;
use recto::store::ReadOptions;
use recto_model::{Table, Type, Value, cell, json};
use recto_plan::SortOrder;
use serde_json::Value as Json;

/// Asserts that each view of a collection has exactly the rows that the records require. Returns
/// the number of records.
pub(crate) async fn assert_views_are_exact(recto: &Recto, collection: &str) -> usize {
    let records = recto.dynamic(collection).unwrap();
    let definition = records.definition();
    let found: Vec<_> = records.scan().parts().try_collect().await.unwrap();
    let records: Vec<_> = found.into_iter().flat_map(|part| part.items).collect();
    for view in &definition.views {
        let table = &table_of(recto, collection, &view.name).await;
        let arranged = definition.arranged(view);
        let view_table = SortOrder::new(&arranged, table.name()).unwrap();
        let by = |record: &recto::DynamicRecord| {
            let has = |name: &String| record.get(name).is_some();
            let mut order = view.order.iter();
            view.partition.iter().all(has)
                && (view.nulls != Nulls::Skip || order.all(|column| has(&column.field)))
        };
        let mut expected: Vec<String> = Vec::new();
        for record in records.iter().filter(|record| by(record)) {
            let mut json = BTreeMap::new();
            for (_, field) in view_table.fields() {
                let name = &definition.fields[field].name;
                json.insert(name, record.to_json().get(name).cloned());
            }
            expected.push(format!("{json:?}"));
        }
        let mut there: Vec<String> = Vec::new();
        for (row, _) in rows(recto, table).await {
            let mut json: BTreeMap<&String, Option<Json>> = BTreeMap::new();
            for (column, field) in view_table.fields() {
                let field = &definition.fields[field];
                let cells: recto_model::Cells = row.iter().map(Option::as_deref).collect();
                let value = view_table.cell(cells.as_row(), column);
                let value = value.map(|value| shown(&field.ty, &cell::decode(&field.ty, value).unwrap()));
                json.insert(&field.name, value);
            }
            there.push(format!("{json:?}"));
        }
        expected.sort();
        there.sort();
        assert_eq!(there, expected, "view {} of {collection}", view.name);
    }
    records.len()
}

/// Asserts that views have exactly the required rows, as [`assert_views_are_exact`] does, and that
/// `verify` finds no fault.
pub(crate) async fn assert_views_are_well(recto: &Recto, collection: &str) -> usize {
    let records = assert_views_are_exact(recto, collection).await;
    let verified = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert_eq!(verified.wrong(), 0, "{verified:?}");
    records
}

/// Returns, for each row of the collection's views, its remaining lifetime in seconds. `None` if
/// the row does not expire.
pub(crate) async fn entries_end_in(recto: &Recto, collection: &str) -> Vec<Option<u32>> {
    let definition = recto.dynamic(collection).unwrap().definition();
    let mut ends = Vec::new();
    for view in &definition.views {
        let table = table_of(recto, collection, &view.name).await;
        ends.extend(rows(recto, &table).await.into_iter().map(|(_, end)| end));
    }
    ends
}

/// Returns the table of a view with its bucket settings, as queries use it. The store's list of
/// tables lacks these settings.
pub(crate) async fn table_of(recto: &Recto, collection: &str, view: &str) -> Table {
    let start = format!("{collection}_{view}_");
    let is_it = |table: &Table| {
        let number = table.name().strip_prefix(&start);
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let tables = recto.store().list_tables().await.unwrap();
    let found = tables.into_iter().find(is_it).unwrap();
    let definition = recto.dynamic(collection).unwrap().definition();
    let view = definition.view(view).unwrap();
    let arranged = definition
        .arranged(view)
        .allow_empty_partition(found.options().allows_empty_partition);
    arranged.table(found.name()).unwrap().0
}

fn shown(ty: &Type, value: &Value) -> Json {
    json::to_json(ty, value)
}

/// Cells (encoded values) of a row; `None` is null.
type Row = Vec<Option<Vec<u8>>>;

/// Returns all rows of a table, each with its remaining lifetime in seconds, or `None` if the row
/// does not expire.
async fn rows(recto: &Recto, table: &Table) -> Vec<(Row, Option<u32>)> {
    let table = Arc::new(table.clone());
    let snapshot = recto.store().snapshot().unwrap();
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let mut rows = Vec::new();
    for range in snapshot.token_ranges(&table, 1).await.unwrap() {
        let mut after = None;
        loop {
            let read = snapshot
                .scan(&table, &range, after.as_ref(), 1_000, &options)
                .await
                .unwrap();
            let cells =
                |row: recto_model::RowRef<'_>| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
            let ends = read
                .ends_in_seconds
                .iter()
                .copied()
                .chain(std::iter::repeat(None));
            rows.extend(read.rows.iter().map(cells).zip(ends));
            match read.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    rows
}
