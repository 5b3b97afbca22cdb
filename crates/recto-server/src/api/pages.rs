//! Lists of records: AIP-158 pages that turn both ways.

use std::fmt::Write as _;

use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use recto::session::{PageReply, PageText};
use serde_json::{Map, Value as Json};

use super::address;
use super::answer;
use super::caller::Caller;
use super::collections::check_view;
use super::cost;
use super::question::{PLACES, Question};
use crate::access::Operation;
use crate::problem::Problem;

/// The longest address that a `Link` header holds: what is longer does not fit the headers that
/// clients take, and is in the body anyway.
const MAX_LINK_CHARACTERS: usize = 4 << 10;

/// What a page's text has room for beside its records: the tokens.
const ROOM_BYTES: usize = 1 << 10;

/// `GET …/records`.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Read)?;
    let question = Question::read(&uri, &[])?;
    if let Some(view) = question.parameters.text("view") {
        check_view(&*caller.definition(&collection).await?, Some(view))?;
    }
    let page = session.page_text(&collection, &question.request).await;
    let page = page.map_err(|error| question.problem(error))?;
    let (text, tag) = representation(&page);
    let reply = page.reply;
    let mut response = match tag {
        Some(tag) => answer::tagged(&headers, &tag, answer::APPLICATION_JSON, text),
        None => answer::untagged(answer::APPLICATION_JSON, text),
    };
    let links = links(&question, &reply);
    answer::set(response.headers_mut(), header::LINK, &links);
    answer::set(response.headers_mut(), cost::COST, &cost::text(&reply.cost));
    // For whoever counts what pages cost.
    response.extensions_mut().insert(reply.cost);
    Ok(response)
}

/// What [`PageReply::to_json`] is as text, and its entity tag: a weak one, because tokens are sealed
/// anew each time and lead to the same places. A page that a budget cut has none: its end may move
/// while its records stay.
fn representation(page: &PageText) -> (String, Option<String>) {
    let reply = &page.reply;
    let mut text = String::with_capacity(page.records.len() + ROOM_BYTES);
    text.push_str("{\"records\":");
    text.push_str(&page.records);
    let ends = [&reply.next_page_token, &reply.previous_page_token].map(String::is_empty);
    let tag = reply.stop.is_none().then(|| {
        let _ = write!(text, "{}{}", u8::from(ends[0]), u8::from(ends[1]));
        let tag = format!("W/{}", answer::strong_tag(text.as_bytes()));
        text.truncate(text.len() - 2);
        tag
    });
    let mut rest = Map::new();
    rest.insert("next_page_token".into(), reply.next_page_token.clone().into());
    rest.insert(
        "previous_page_token".into(),
        reply.previous_page_token.clone().into(),
    );
    if let Some(stop) = &reply.stop {
        rest.insert("stop".into(), stop.clone().into());
    }
    if let Some(tokens) = &reply.row_tokens {
        rest.insert("row_tokens".into(), tokens.clone().into());
    }
    let rest = Json::Object(rest).to_string();
    text.push(',');
    text.push_str(&rest[1..]);
    (text, tag)
}

/// RFC 8288: where the first, the previous and the next page are, relative to this one.
fn links(question: &Question, reply: &PageReply) -> String {
    let link = |relation: &str, token: Option<&str>| {
        let token = token.map(|token| ("page_token", token));
        let query = question.parameters.encoded_without(&PLACES, token);
        let mark = if query.is_empty() { "" } else { "?" };
        let address = format!("records{mark}{query}");
        (address.len() <= MAX_LINK_CHARACTERS).then(|| format!("<{address}>; rel=\"{relation}\""))
    };
    let token = |token: &str| (!token.is_empty()).then(|| token.to_owned());
    let previous = token(&reply.previous_page_token).and_then(|token| link("prev", Some(&token)));
    let next = token(&reply.next_page_token).and_then(|token| link("next", Some(&token)));
    let links = [link("first", None), previous, next];
    links.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn reply(next: &str, stop: Option<&str>) -> PageReply {
        let record = serde_json::json!({ "id": "1", "note": "\"é" });
        PageReply {
            records: vec![record.as_object().unwrap().clone()],
            next_page_token: next.into(),
            stop: stop.map(str::to_owned),
            row_tokens: Some(vec!["t".into()]),
            ..PageReply::default()
        }
    }

    fn text_of(reply: &PageReply) -> PageText {
        PageText {
            records: serde_json::to_string(&reply.records).unwrap(),
            count: reply.records.len(),
            reply: reply.clone(),
        }
    }

    #[test]
    fn the_text_is_that_of_the_reply() {
        for reply in [reply("n", None), reply("", Some("bytes")), PageReply::default()] {
            let (text, _) = representation(&text_of(&reply));
            assert_eq!(text, reply.to_json().to_string());
        }
    }

    #[test]
    fn tags_are_of_records_and_ends() {
        let tag = |reply: PageReply| representation(&text_of(&reply)).1;
        assert_eq!(tag(reply("a", None)), tag(reply("b", None)));
        assert_ne!(tag(reply("a", None)), tag(reply("", None)));
        assert_ne!(tag(reply("", None)), tag(PageReply::default()));
        assert_eq!(tag(reply("a", Some("time"))), None);
    }

    #[test]
    fn links_keep_what_was_asked_but_the_place() {
        let uri = "/x?filter=a+%3D+1&page_token=old&page_size=5".parse().unwrap();
        let question = Question::read(&uri, &[]).unwrap();
        assert_eq!(
            links(&question, &reply("new", None)),
            "<records?filter=a%20%3D%201&page_size=5>; rel=\"first\", \
             <records?filter=a%20%3D%201&page_size=5&page_token=new>; rel=\"next\""
        );
        let bare = Question::read(&"/x?last=true".parse().unwrap(), &[]).unwrap();
        assert_eq!(links(&bare, &reply("", None)), "<records>; rel=\"first\"");
        let long = reply(&"n".repeat(MAX_LINK_CHARACTERS), None);
        assert_eq!(links(&bare, &long), "<records>; rel=\"first\"");
    }
}
