//! Error of a rejected query. The console shows it above the page of records from which the query
//! came.

use std::error::Error as _;

use maud::{Markup, html};
use recto::schema::{Collection, Schema};
use recto::{Error, ErrorKind, ErrorPart, LocalSession, Session};

use super::layout::problem_with;
use super::page_url::PageUrl;
use crate::access::{Access, Right};
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Maximum number of other collections for which the console checks whether they serve a rejected
/// query. A check only plans the query.
const MAX_COLLECTIONS_ASKED: usize = 50;
/// Maximum number of other collections that the error suggests.
const MAX_COLLECTIONS_NAMED: usize = 3;
/// Maximum number of characters that are shown on each side of an error in a filter or sort.
const SHOWN_AROUND: usize = 32;

/// Part of a query that an error refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Filter,
    Sort,
    /// Position at which the page starts (a jump).
    Start,
}

/// Rejected query with its error, and alternatives.
pub(super) struct Refused {
    /// Page that the user requested.
    pub(super) asked: PageUrl,
    pub(super) problem: Problem,
    pub(super) place: Option<Place>,
    /// Position of the error in the filter or sort: in characters, from 1.
    column: Option<usize>,
    /// True if the query would be served by a filter scan (checking rows one by one).
    serves_row_by_row: bool,
    /// Pages of other collections that have the same fields and serve the query.
    served_by: Vec<PageUrl>,
}

impl Refused {
    /// Creates the error of a rejected query. Checks whether a filter scan or another collection
    /// would serve the query.
    pub(super) async fn new(
        asked: PageUrl,
        error: Error,
        session: &dyn Session,
        others: &OtherCollections<'_>,
    ) -> Self {
        let is_unserved = error.kind() == ErrorKind::NoPlan;
        let filter_scan = PageUrl {
            allow_filter_scan: true,
            ..asked.first_page()
        };
        let serves_row_by_row =
            is_unserved && !asked.allow_filter_scan && is_served(session, &filter_scan).await;
        let served_by = if is_unserved {
            others.that_serve(&asked).await
        } else {
            Vec::new()
        };
        let place = Place::of(&error);
        Self {
            place,
            column: error.column(),
            problem: match place {
                Some(Place::Start) => no_start(error),
                _ => Problem::from(error),
            },
            serves_row_by_row,
            served_by,
            asked,
        }
    }

    /// Returns the panel of the error with its alternatives. `was` is the page below it, to which
    /// the user can return.
    pub(super) fn render(&self, was: Option<&PageUrl>) -> Markup {
        let more = html! {
            @if let Some(was) = was {
                a.dismiss href=(was.href()) aria-label="Dismiss: return to the page below" title="Dismiss" { "×" }
            }
            (self.excerpt())
            (serving(&self.served_by))
            (self.ways(was))
        };
        problem_with(&self.problem, &more)
    }

    fn ways(&self, was: Option<&PageUrl>) -> Markup {
        let asked = &self.asked;
        let filter_scan = PageUrl {
            allow_filter_scan: true,
            ..asked.first_page()
        };
        let has_order = was.is_none() && !asked.order_by.is_empty();
        let is_first = *asked == asked.first_page();
        if !(self.serves_row_by_row || has_order || was.is_none() && !is_first) {
            return Markup::default();
        }
        html! {
            p.ways {
                @if self.serves_row_by_row {
                    a.button href=(filter_scan.href()) { "Check rows one by one" }
                }
                @if has_order { a.button href=(asked.with_order("").href()) { "Use the collection's order" } }
                @if was.is_none() && !is_first {
                    a.button href=(asked.first_page().href()) { "The first page" }
                }
            }
        }
    }

    /// Returns the text around the error in the filter or sort, with the error marked.
    fn excerpt(&self) -> Markup {
        let (Some(column), Some(place)) = (self.column, self.place) else {
            return Markup::default();
        };
        let text: Vec<char> = match place {
            Place::Filter => self.asked.filter.chars().collect(),
            Place::Sort => self.asked.order_by.chars().collect(),
            Place::Start => return Markup::default(),
        };
        let start = column.saturating_sub(1).min(text.len());
        let end = end_of_word(&text, start);
        let from = start.saturating_sub(SHOWN_AROUND);
        let to = text.len().min(end + SHOWN_AROUND);
        let piece = |range: std::ops::Range<usize>| text[range].iter().collect::<String>();
        html! {
            pre.pointed tabindex="0" {
                code {
                    @if from > 0 { "…" }
                    (piece(from..start))
                    mark { @if start == end { " " } @else { (piece(start..end)) } }
                    (piece(end..to))
                    @if to < text.len() { "…" }
                }
            }
        }
    }
}

/// Converts the error of a jump to a value that is no valid start. The problem names the value's
/// field.
fn no_start(error: Error) -> Problem {
    let Some(field) = error.field().map(str::to_owned) else {
        return Problem::from(error);
    };
    let reason = error.source().map(ToString::to_string);
    let detail = format!("{field}: {}", reason.as_deref().unwrap_or(error.message()));
    Problem::new(ProblemType::InvalidQuery, detail)
        .with_title("This value cannot be used for a jump")
        .with_field(field)
}

/// Returns the index after the word, string or sign that starts at the index `start`.
fn end_of_word(text: &[char], start: usize) -> usize {
    let Some(&first) = text.get(start) else {
        return start;
    };
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':');
    let rest = &text[start + 1..];
    let length = match first {
        '"' | '\'' => rest
            .iter()
            .position(|&next| next == first)
            .map_or(rest.len(), |at| at + 1),
        _ if is_word(first) => rest.iter().take_while(|&&next| is_word(next)).count(),
        _ => 0,
    };
    start + 1 + length
}

impl Place {
    fn of(error: &Error) -> Option<Self> {
        match error.part()? {
            ErrorPart::Filter => Some(Self::Filter),
            ErrorPart::Sort => Some(Self::Sort),
            ErrorPart::From => Some(Self::Start),
            _ => None,
        }
    }
}

/// Returns links to pages of other collections that serve the query.
pub(super) fn serving(pages: &[PageUrl]) -> Markup {
    html! {
        @for page in pages {
            p { a href=(page.href()) { b { (page.collection) } } ", which has the same fields, can serve this query." }
        }
    }
}

async fn is_served(session: &dyn Session, page: &PageUrl) -> bool {
    let request = page.request();
    session.explain(&page.collection, &request, false).await.is_ok()
}

/// Other collections of the schema, which may serve a query that its own collection cannot serve.
pub(super) struct OtherCollections<'a> {
    pub(super) schema: &'a Schema,
    pub(super) access: &'a Access,
    pub(super) session: &'a LocalSession,
}

impl OtherCollections<'_> {
    /// Returns the pages of other collections that have the same fields and serve the query.
    pub(super) async fn that_serve(&self, asked: &PageUrl) -> Vec<PageUrl> {
        let Some(collection) = self.schema.collection(&asked.collection) else {
            return Vec::new();
        };
        let others = self.schema.collections.iter();
        let others = others.filter(|other| other.name != collection.name && has_fields_of(other, collection));
        let mut serving = Vec::new();
        for other in others.take(MAX_COLLECTIONS_ASKED) {
            let page = PageUrl {
                collection: other.name.clone(),
                ..asked.first_page()
            };
            let Ok(session) = self.access.session(self.session, &other.name, Right::Read) else {
                continue;
            };
            if is_served(&*session, &page).await {
                serving.push(page);
            }
            if serving.len() == MAX_COLLECTIONS_NAMED {
                break;
            }
        }
        serving
    }
}

fn has_fields_of(other: &Collection, collection: &Collection) -> bool {
    other.fields.len() == collection.fields.len()
        && collection.fields.iter().all(|field| other.fields.contains(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_word_is_marked() {
        let word = |text: &str, start: usize| {
            let text: Vec<char> = text.chars().collect();
            text[start..end_of_word(&text, start)].iter().collect::<String>()
        };
        assert_eq!(word("a AND flihgt = 1", 6), "flihgt");
        assert_eq!(word("a = \"b c\" AND", 4), "\"b c\"");
        assert_eq!(word("a = \"b c", 4), "\"b c");
        assert_eq!(word("a != 1", 2), "!");
        assert_eq!(word("a =", 3), "");
    }
}
