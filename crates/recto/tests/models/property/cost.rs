//! Check of the number of rows that a page reads: its own rows, and one more row of each row range.

use recto::session::{Explanation, PageRequest, Pages};
use recto::{DynamicRecord, LocalSession, Page};
use recto_plan::text::MAX_TEXT_BYTES;
use recto_testkit::generate::Place;

use super::loaded_case::{Failure, LoadedCase, ensure};

/// Checks that a page at any position reads only its own rows, and one more row of each source (row
/// range) of its plan. Leaves out queries with filter scans, which another guarantee covers.
pub(crate) async fn of_pages(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    let filter = asked.case.question.filter_text(&asked.case.collection);
    if asked.case.question.allow_filter_scan || filter.len() > MAX_TEXT_BYTES {
        return Ok(());
    }
    let whole = asked.whole().await?;
    for page in &asked.case.moves {
        let Some((query, _)) = asked.beside(&whole.sequence, page, whole.of(page)) else {
            continue;
        };
        let what = format!("{} rows {:?} row {}", page.size, page.place, page.row);
        let found = asked.page(query, &what).await?;
        let sides = if page.place == Place::Around { 2 } else { 1 };
        let beyond = u64::from(page.both_edges && sides == 1);
        is_low(asked, &found, sides * (u64::from(page.size) + 1) + beyond, &what).await?;
    }
    let mut query = asked.query.clone().first(asked.page_move(0).size);
    for number in 0.. {
        let (size, what) = (
            asked.page_move(number).size,
            format!("page {} forwards", number + 1),
        );
        let page = asked.page(query, &what).await?;
        is_low(asked, &page, u64::from(size) + 1, &what).await?;
        let Some(next) = page.next_cursor() else { break };
        query = asked
            .query
            .clone()
            .page_size(asked.page_move(number + 1).size)
            .page_token(next);
    }
    Ok(())
}

/// Checks that a page read at most `most` rows for each source (row range) of its plan.
async fn is_low(
    asked: &LoadedCase<'_>,
    page: &Page<DynamicRecord>,
    most: u64,
    what: &str,
) -> Result<(), Failure> {
    let plan = explained(asked).await?;
    let sources = plan.sources.len() as u64;
    let cost = page.cost();
    ensure!(
        cost.rows_read <= most * sources,
        "{what}: {} rows read of {sources} sources ({})",
        cost.rows_read,
        plan.shape
    );
    Ok(())
}

async fn explained(asked: &LoadedCase<'_>) -> Result<Explanation, Failure> {
    let request = PageRequest {
        filter: asked.case.question.filter_text(&asked.case.collection),
        order_by: asked.case.question.sort_text(&asked.case.collection),
        view: asked
            .subject
            .view
            .as_ref()
            .map_or(String::new(), |view| view.name.to_owned()),
        fields: asked
            .subject
            .view
            .as_ref()
            .map_or(Vec::new(), |view| view.fields.clone()),
        ..PageRequest::default()
    };
    let session = LocalSession::new(asked.subject.recto.clone());
    let explained = session
        .explain(&asked.case.collection.name, &request, false)
        .await;
    explained.map_err(|error| Failure::of(&error, "explain"))
}
