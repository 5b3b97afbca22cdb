//! Checks of pages after, before and around positions, and of pages from values (guarantees 1 and
//! 3).

use recto_testkit::generate::Place;
use recto_testkit::oracle::Row;

use super::loaded_case::{Failure, LoadedCase, ensure};
use crate::common::subject::rows;

/// Checks that each requested page of a test case has the rows next to its position. Also checks a
/// page that is read backward from values.
pub(crate) async fn after_and_before(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    let whole = asked.whole().await?;
    let all = whole.sequence.rows();
    for page in &asked.case.moves {
        let what = format!("{} rows {:?} row {}", page.size, page.place, page.row);
        let Some((query, cut)) = asked.beside(&whole.sequence, page, whole.of(page)) else {
            continue;
        };
        let found = asked.page(query, &what).await?;
        asked.same_rows(&rows(&found), cut.rows, &what)?;
        let Some(previous) = found.previous_cursor().filter(|_| page.place == Place::From) else {
            continue;
        };
        let place = all.len() - whole.sequence.from(&page.from, usize::MAX / 2).rows.len();
        let back = asked.query.clone().page_size(page.size).page_token(previous);
        let back = asked.page(back, &what).await?;
        let expected = &all[place.saturating_sub(page.size as usize)..place];
        asked.same_rows(&rows(&back), expected, &format!("{what}, and back"))?;
    }
    Ok(())
}

/// Checks that each cursor still leads to the rows next to its position after other rows were
/// written and deleted. The cursor's own row may have been deleted, too.
pub(crate) async fn cursors_of_rows_that_may_be_gone(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    let before = asked.whole().await?;
    for page in &asked.case.moves {
        asked.write(&page.writes).await;
        if let (true, Some((row, _))) = (page.by_row, before.of(page)) {
            asked.subject.delete(row).await;
        }
    }
    let now = asked.subject.oracle.ask(&asked.case.question);
    for page in &asked.case.moves {
        let own = before.of(page);
        let shown = own.map_or_else(String::new, |(row, _)| asked.subject.oracle.show(row));
        let what = format!("{} rows {:?} where {shown} is or was", page.size, page.place);
        let Some((query, cut)) = asked.beside(&now, page, own) else {
            continue;
        };
        let found = asked.page(query, &what).await?;
        asked.same_rows(&rows(&found), cut.rows, &what)?;
        // Also continue from the cursor of a row on the page.
        let Some(last) = found.len().checked_sub(1) else {
            continue;
        };
        let index = page.row % found.len();
        let after = asked
            .query
            .clone()
            .page_size(page.size)
            .after(found.cursor(index));
        let after = asked.page(after, &what).await?;
        let row: &Row = &cut.rows[index];
        let expected = now.after(row, page.size as usize).rows;
        asked.same_rows(
            &rows(&after),
            expected,
            &format!("{what}, and on after its row {index} of {last}"),
        )?;
        ensure!(
            after.has_next().is_some(),
            "{what}, and on: it does not know if there is more"
        );
    }
    Ok(())
}
