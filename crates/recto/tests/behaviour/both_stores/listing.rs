//! Functions that read all pages of a query.

use recto::{DynamicRecord, Page, PageQuery, Value};

/// Returns the ids of a page's records.
pub(crate) fn ids(page: &Page<DynamicRecord>) -> Vec<i32> {
    let id = |record: &DynamicRecord| match record.get("id") {
        Some(Value::Int(id)) => *id,
        other => panic!("{other:?}"),
    };
    page.items().iter().map(id).collect()
}

/// Returns the ids of all rows of a query, read forwards in pages of `size` rows with page tokens.
pub(crate) async fn forwards(query: &PageQuery<DynamicRecord>, size: u32) -> Vec<i32> {
    let (mut forwards, mut page) = (Vec::new(), query.clone().first(size).await.unwrap());
    loop {
        forwards.extend(ids(&page));
        let Some(next) = page.next_cursor() else { break };
        page = query.clone().page_size(size).page_token(next).await.unwrap();
    }
    assert_eq!(page.has_next(), Some(false));
    forwards
}

/// Returns the ids of all rows of a query, read forwards and read backwards. Both lists are in the
/// order of the query.
pub(crate) async fn both_ways(query: &PageQuery<DynamicRecord>, size: u32) -> (Vec<i32>, Vec<i32>) {
    let forwards = forwards(query, size).await;
    let (mut backwards, mut page) = (Vec::new(), query.clone().last(size).await.unwrap());
    loop {
        backwards.splice(0..0, ids(&page));
        let Some(previous) = page.previous_cursor() else {
            break;
        };
        page = query.clone().page_size(size).page_token(previous).await.unwrap();
    }
    (forwards, backwards)
}
