//! Check of which queries accept a cursor (guarantee 5).

use recto::{Cursor, DynamicRecord, ErrorKind, PageQuery};
use recto_testkit::generate::{Move, Place};
use recto_testkit::oracle::{Condition, Question};

use super::loaded_case::{Failure, LoadedCase, Whole, ensure, is_refusal};
use crate::common::subject::rows;

/// Characters of base64url, with which the test alters a cursor.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Checks that the query of a cursor accepts it in every notation of the query. Other queries must
/// reject it, and altered cursors must be rejected.
pub(crate) async fn own_query(asked: &mut LoadedCase<'_>) -> Result<(), Failure> {
    let whole = asked.whole().await?;
    for page in &asked.case.moves {
        let Some((row, cursor)) = whole.of(page) else {
            return Ok(());
        };
        let again = rewritten(&asked.case.question);
        let query = asked
            .subject
            .query(&again, !asked.case.built)
            .page_size(page.size);
        let found = asked
            .page(query.after(cursor.clone()), "the same, written otherwise")
            .await?;
        let expected = whole.sequence.after(row, page.size as usize).rows;
        asked.same_rows(&rows(&found), expected, "the same, written otherwise")?;
        for other in others(asked, page, &whole) {
            let query = asked.subject.query(&other, asked.case.built);
            let filter = other.filter_text(&asked.case.collection);
            let sort = other.sort_text(&asked.case.collection);
            refuses(
                asked,
                query,
                page,
                &cursor.to_string(),
                &format!("another: {filter}, by {sort}"),
            )
            .await?;
        }
        for text in altered(cursor, page.row) {
            let query = asked.query.clone();
            refuses(asked, query, page, &text, &format!("altered: {text} of {cursor}")).await?;
        }
    }
    Ok(())
}

/// Returns an equal query in another notation: with conditions and values in another order, and
/// with repeated values.
fn rewritten(question: &Question) -> Question {
    let mut again = question.clone();
    again.conditions.reverse();
    for condition in &mut again.conditions {
        if let Condition::AnyOf { values, .. } = condition {
            values.reverse();
            values.push(values[0].clone());
        }
    }
    again
}

/// Returns queries that must reject the cursor of the case's query: the query in reverse order, and
/// the query without one of its conditions. Leaves out queries with the same result, because they
/// may be equal.
fn others(asked: &LoadedCase<'_>, page: &Move, whole: &Whole) -> Vec<Question> {
    let question = &asked.case.question;
    let order = whole.sequence.order().iter();
    let mut others = vec![Question {
        sort: order
            .map(|(field, direction)| (*field, direction.reversed()))
            .collect(),
        ..question.clone()
    }];
    if let Some(index) = page.row.checked_rem(question.conditions.len()) {
        let mut fewer = question.clone();
        fewer.conditions.remove(index);
        others.push(fewer);
    }
    others.retain(|other| {
        let (left, right) = (asked.subject.oracle.ask(other), whole.sequence.rows());
        let mut pairs = left.rows().iter().zip(right);
        left.rows().len() != right.len()
            || pairs.any(|(left, right)| !asked.subject.oracle.same_row(left, right))
    });
    others
}

/// Returns altered copies of a cursor: with a changed character, without its last characters, and
/// with an additional character.
fn altered(cursor: &Cursor, choice: usize) -> Vec<String> {
    let text = cursor.to_string();
    let index = choice % text.len();
    let mut bytes = text.clone().into_bytes();
    let place = LETTERS.iter().position(|letter| *letter == bytes[index]).unwrap();
    bytes[index] = LETTERS[(place + 1 + choice % (LETTERS.len() - 1)) % LETTERS.len()];
    vec![
        String::from_utf8(bytes).unwrap(),
        text[..text.len() - 1 - choice % (text.len() - 1)].to_owned(),
        format!("{text}A"),
    ]
}

/// Checks that Recto rejects the cursor as invalid, or rejects the query itself.
async fn refuses(
    asked: &mut LoadedCase<'_>,
    query: PageQuery<DynamicRecord>,
    page: &Move,
    cursor: &str,
    what: &str,
) -> Result<(), Failure> {
    asked.pages += 1;
    let query = match page.place {
        Place::After => query.after(cursor),
        Place::Before => query.before(cursor),
        Place::Around => query.around(cursor),
        Place::From => query.page_token(cursor),
    };
    match query.await {
        Ok(page) => {
            let rows = asked.subject.show(&rows(&page));
            Err(Failure::new(format!("{what}: it was opened\n{rows}")))
        }
        // The sort order may be unable to serve the modified query, so Recto may also reject the
        // query.
        Err(error) if is_refusal(&error) => Ok(()),
        Err(error) => {
            ensure!(error.kind() == ErrorKind::InvalidCursor, "{what}: {error}");
            Ok(())
        }
    }
}
