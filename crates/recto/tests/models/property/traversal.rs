//! Checks that read all pages from one end of a query to the other (guarantees 2, 4 and 7).

use recto::{DynamicRecord, Page, PageQuery, Stop};
use recto_testkit::generate::Place;
use recto_testkit::oracle::Row;

use super::loaded_case::{Failure, LoadedCase, edges_are, ensure};
use crate::common::subject::rows;

/// Maximum number of pages for each row that is returned or examined. With more pages, the reading
/// makes no progress, and the check fails.
const MAX_PAGES_PER_ROW: usize = 4;

/// Reading of all pages of a query, and the rows returned so far, in the query's order.
struct Traversal {
    backwards: bool,
    found: Vec<Row>,
    pages: usize,
    most: usize,
}

impl Traversal {
    fn new(asked: &LoadedCase<'_>, backwards: bool) -> Self {
        let writes: usize = asked.case.moves.iter().map(|page| page.writes.len()).sum();
        Self {
            backwards,
            found: Vec::new(),
            pages: 0,
            most: (asked.subject.oracle.rows().len() + writes + 2) * MAX_PAGES_PER_ROW,
        }
    }

    /// Returns the query for the first page.
    fn start(&self, asked: &LoadedCase<'_>) -> PageQuery<DynamicRecord> {
        let (query, size) = (asked.query.clone(), asked.page_move(0).size);
        if self.backwards {
            query.last(size)
        } else {
            query.first(size)
        }
    }

    /// Adds the rows of a page to the result. Returns the query for the next page, or `None` at the
    /// end.
    fn next(
        &mut self,
        asked: &LoadedCase<'_>,
        page: &Page<DynamicRecord>,
    ) -> Result<Option<PageQuery<DynamicRecord>>, Failure> {
        let place = if self.backwards { 0 } else { self.found.len() };
        self.found.splice(place..place, rows(page));
        self.pages += 1;
        ensure!(self.pages <= self.most, "{} pages, and no end", self.pages);
        let token = if self.backwards {
            page.previous_cursor()
        } else {
            page.next_cursor()
        };
        let Some(token) = token else { return Ok(None) };
        let next = asked.page_move(self.pages);
        let query = asked.query.clone().page_size(next.size);
        let by_row = next.by_row && !page.is_empty() && page.stop().is_none();
        Ok(Some(match (by_row, self.backwards) {
            (false, _) => query.page_token(token),
            (true, false) => query.after(page.cursor(page.len() - 1)),
            (true, true) => query.before(page.cursor(0)),
        }))
    }

    fn page_name(&self) -> String {
        let way = if self.backwards { "backwards" } else { "forwards" };
        format!("page {} {way}", self.pages + 1)
    }
}

/// Reads all pages while rows are written and deleted between them, and checks the result:
///
/// - Each row that exists all the time is returned exactly once, in order.
/// - No row is returned twice, and no row that never existed.
/// - Without writes, the result agrees with the oracle.
pub(crate) async fn every_row_once(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    for writing in [false, true] {
        let start = asked.subject.oracle.ask(&asked.case.question);
        let mut stayed = start.rows().to_vec();
        let mut ever = asked.subject.oracle.rows().to_vec();
        let mut traversal = Traversal::new(asked, asked.page_move(0).backwards);
        let mut query = traversal.start(asked);
        loop {
            let page = asked.page(query, &traversal.page_name()).await?;
            ensure!(
                page.stop().is_none(),
                "{}: {:?}",
                traversal.page_name(),
                page.stop()
            );
            let Some(next) = traversal.next(asked, &page)? else {
                break;
            };
            query = next;
            if writing && traversal.pages <= asked.case.moves.len() {
                let (stored, deleted) = asked.write(&asked.page_move(traversal.pages - 1).writes).await;
                ever.extend(stored);
                stayed.retain(|row| {
                    !deleted
                        .iter()
                        .any(|gone| asked.subject.oracle.same_row(row, gone))
                });
            }
        }
        let found = &traversal.found;
        if !writing {
            asked.same_rows(found, start.rows(), "all pages together")?;
        }
        let mut pairs = found.windows(2);
        ensure!(
            pairs.all(|pair| start.compare(&pair[0], &pair[1]).is_lt()),
            "out of order or twice:\n{}",
            asked.subject.show(found)
        );
        let oracle = &asked.subject.oracle;
        for row in &stayed {
            let is_found = found.iter().any(|other| oracle.same_row(row, other));
            ensure!(is_found, "lost: {}", oracle.show(row));
        }
        for row in found {
            let is_known = ever.iter().any(|other| oracle.same_row(row, other));
            ensure!(is_known, "never was: {}", oracle.show(row));
        }
    }
    Ok(())
}

/// Checks what pages report about rows before and after them: while all pages are read, next to
/// rows, and with budgets.
pub(crate) async fn edges(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    let whole = asked.whole().await?;
    let all = whole.sequence.rows();
    for backwards in [false, true] {
        let mut traversal = Traversal::new(asked, backwards);
        let mut query = traversal.start(asked);
        loop {
            let page_move = asked.page_move(traversal.pages);
            let what = traversal.page_name();
            if page_move.both_edges {
                query = query.both_edges();
            }
            let page = asked.page(query, &what).await?;
            let before = traversal.found.len();
            let behind = match (traversal.pages, page_move.both_edges) {
                (0, _) => Some(false),
                (_, true) => Some(before > 0),
                (_, false) => None,
            };
            let ahead = Some(before + page.len() < all.len());
            let (start, end) = if backwards {
                (ahead, behind)
            } else {
                (behind, ahead)
            };
            edges_are(&page, start, end, &what)?;
            let Some(next) = traversal.next(asked, &page)? else {
                break;
            };
            query = next;
        }
        asked.same_rows(&traversal.found, all, "all pages together")?;
    }
    for page in &asked.case.moves {
        let Some((query, cut)) = asked.beside(&whole.sequence, page, whole.of(page)) else {
            continue;
        };
        let what = format!("{} rows {:?} row {}", page.size, page.place, page.row);
        let found = asked.page(query, &what).await?;
        let (before, after) = (Some(cut.more_before), Some(cut.more_after));
        let (before, after) = match page.place {
            Place::Around => (before, after),
            _ if page.both_edges => (before, after),
            Place::Before => (before, None),
            Place::After | Place::From => (None, after),
        };
        edges_are(&found, before, after, &what)?;
    }
    Ok(())
}

/// Reads all pages with budgets of a few examined rows, or a few bytes, from both ends, and in both
/// directions from the middle. Checks that no row is lost.
pub(crate) async fn on_budgets(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    let whole = asked.whole().await?;
    let all = whole.sequence.rows();
    for backwards in [false, true] {
        let mut traversal = Traversal::new(asked, backwards);
        let mut query = traversal.start(asked);
        loop {
            let (size, what) = (
                asked.page_move(traversal.pages).size as usize,
                traversal.page_name(),
            );
            let page = asked.page(budgeted(asked, query, traversal.pages), &what).await?;
            let seen = traversal.found.len() + page.len();
            said_why(asked, &page, size, backwards, seen, all.len(), &what)?;
            let Some(next) = traversal.next(asked, &page)? else {
                break;
            };
            query = next;
        }
        asked.same_rows(&traversal.found, all, "all pages on budgets together")?;
    }
    let Some((_, cursor)) = whole.of(asked.page_move(0)) else {
        return Ok(());
    };
    let around = asked
        .query
        .clone()
        .page_size(asked.page_move(0).size)
        .around(cursor.clone());
    let middle = asked
        .page(budgeted(asked, around, 0), "around a row on a budget")
        .await?;
    let mut found = rows(&middle);
    for backwards in [false, true] {
        let mut rest = Traversal::new(asked, backwards);
        let mut page = None;
        loop {
            let from = page.as_ref().unwrap_or(&middle);
            let next = if page.is_none() {
                let token = if backwards {
                    from.previous_cursor()
                } else {
                    from.next_cursor()
                };
                token.map(|token| {
                    asked
                        .query
                        .clone()
                        .page_size(asked.page_move(0).size)
                        .page_token(token)
                })
            } else {
                rest.next(asked, from)?
            };
            let Some(next) = next else { break };
            page = Some(
                asked
                    .page(budgeted(asked, next, rest.pages), "on from a page around a row")
                    .await?,
            );
        }
        let place = if backwards { 0 } else { found.len() };
        found.splice(place..place, rest.found);
    }
    asked.same_rows(&found, all, "from around a row to both ends on budgets")
}

fn budgeted(
    asked: &LoadedCase<'_>,
    mut query: PageQuery<DynamicRecord>,
    page: usize,
) -> PageQuery<DynamicRecord> {
    let page = asked.page_move(page);
    if page.scan_budget > 0 {
        query = query.scan_budget(page.scan_budget);
    }
    if page.byte_budget > 0 {
        query = query.byte_budget(page.byte_budget);
    }
    query
}

/// Checks that a page with too few rows reports the reason, and that every other page is full or
/// the last. Each page must report correctly whether rows follow in its direction.
fn said_why(
    asked: &LoadedCase<'_>,
    page: &Page<DynamicRecord>,
    size: usize,
    backwards: bool,
    seen: usize,
    all: usize,
    what: &str,
) -> Result<(), Failure> {
    let ahead = if backwards {
        page.has_previous()
    } else {
        page.has_next()
    };
    ensure!(
        page.len() <= size,
        "{what}: {} rows, {size} are asked for",
        page.len()
    );
    ensure!(
        page.stop().is_some() || page.len() == size || ahead == Some(false),
        "{what}: {} of {size} rows, more to come, and no reason why",
        page.len()
    );
    ensure!(
        page.stop().is_none() || ahead != Some(false),
        "{what}: it is the last, and says that {:?} cut it short",
        page.stop()
    );
    let is_checked = asked.case.question.allow_filter_scan;
    ensure!(
        page.stop() != Some(Stop::Scanned) || is_checked,
        "{what}: rows were looked at though the sort order serves everything"
    );
    ensure!(page.stop() != Some(Stop::Time), "{what}: its time was over");
    match ahead {
        Some(true) => ensure!(seen < all, "{what}: it says that there is more"),
        Some(false) => ensure!(seen == all, "{what}: it says that there is no more"),
        None => ensure!(page.stop().is_some(), "{what}: it does not know if there is more"),
    }
    Ok(())
}
