//! Lists of records in pages (AIP-158), with page tokens for both directions.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::response::Response;
use recto::session::{PageCost, PageReply, PageRequest, PageText};
use recto::{Error, ErrorPart, Session};
use recto_api::parameters::{names_of, to_query};

use super::address;
use super::answer;
use super::caller::Caller;
use super::request;
use crate::access::Right;
use crate::problem::Problem;

/// Maximum length of an address in a `Link` header, in characters. A longer address is left out,
/// because many clients reject long headers. The body always has the page tokens.
const MAX_LINK_CHARACTERS: usize = 4 << 10;
/// Number of characters of a link besides its parameters and its page token.
const LINK_ROOM_CHARACTERS: usize = r#", <records?&page_token=>; rel="first""#.len();

/// Handles `GET …/records`: returns a page of records.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Read)?;
    let asked: PageRequest = request::of_address(&uri)?;
    page(&collection, &*session, &asked, Some(&headers)).await
}

/// Handles `POST …/records:query`, with the parameters of the list as a JSON object in the body.
pub(super) async fn query(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Read)?;
    let parameters = request::in_body(&uri, request, names_of::<PageRequest>()).await?;
    page(&collection, &*session, &parameters.read()?, None).await
}

/// Returns the reply with a page. If `headers` of the request are given, the reply has an entity
/// tag, and is 304 if the client has the page.
async fn page(
    collection: &str,
    session: &dyn Session,
    request: &PageRequest,
    headers: Option<&HeaderMap>,
) -> Result<Response, Problem> {
    request.check()?;
    let page = session.page_text(collection, request).await;
    let PageText {
        records,
        digest,
        reply,
        ..
    } = page.map_err(|error| problem(request, error))?;
    let (text, tag) = representation(records, digest, &reply);
    let mut response = match headers.zip(tag) {
        Some((headers, tag)) => answer::tagged(headers, &tag, answer::APPLICATION_JSON, text),
        None => answer::untagged(answer::APPLICATION_JSON, text),
    };
    let links = links(request, &reply);
    answer::set(response.headers_mut(), header::LINK, &links);
    if !reply.cost_hidden {
        let cost = HeaderName::from_static(PageCost::HEADER);
        answer::set(response.headers_mut(), cost, &reply.cost.to_header());
    }
    Ok(response)
}

/// Beginning of a page's JSON, up to its records.
const BEFORE_RECORDS: &str = "{\"records\":";

/// Returns a page as JSON text, and its entity tag. `records` is the JSON text of the page's
/// records, and `reply` is the rest of the page.
///
/// The tag is weak: every reply encrypts its page tokens differently, although they mean equal
/// positions. A page that a budget ended has no tag, because the position of its end may change
/// while its records do not.
fn representation(records: String, digest: Option<u128>, reply: &PageReply) -> (String, Option<String>) {
    let tokens = [&reply.next_page_token, &reply.previous_page_token];
    let tag = digest.filter(|_| reply.stop.is_none()).map(|digest| {
        let ends = tokens.map(|token| u8::from(token.is_empty()));
        format!("W/\"{digest:032x}{}{}\"", ends[0], ends[1])
    });
    // Insert the records' text into the reply as it is, so that records are not serialized twice.
    let mut text = records;
    text.insert_str(0, BEFORE_RECORDS);
    // Serialization cannot fail, because JSON can represent all keys and numbers of a reply.
    let rest = serde_json::to_string(reply).unwrap_or_default();
    let rest = rest
        .strip_prefix(BEFORE_RECORDS)
        .and_then(|rest| rest.strip_prefix("[]"));
    text.push_str(rest.unwrap_or("}"));
    (text, tag)
}

/// Returns links to the first, the previous and the next page (RFC 8288), with relative URLs.
fn links(request: &PageRequest, reply: &PageReply) -> String {
    let query = to_query(&request.first_page());
    let tokens = reply.next_page_token.len() + reply.previous_page_token.len();
    let mut links = String::with_capacity(3 * (query.len() + LINK_ROOM_CHARACTERS) + tokens);
    let mut link = |relation: &str, token: &str| {
        let begun = links.len();
        if begun > 0 {
            links.push_str(", ");
        }
        let address = links.len() + 1;
        links.push_str("<records");
        links.push_str(if query.is_empty() && token.is_empty() {
            ""
        } else {
            "?"
        });
        links.push_str(&query);
        if !token.is_empty() {
            links.push_str(if query.is_empty() { "" } else { "&" });
            // Do not encode the token: it is base64url.
            links.push_str("page_token=");
            links.push_str(token);
        }
        if links.len() - address > MAX_LINK_CHARACTERS {
            links.truncate(begun);
            return;
        }
        links.extend([">; rel=\"", relation, "\""]);
    };
    link("first", "");
    for (relation, token) in [
        ("prev", &reply.previous_page_token),
        ("next", &reply.next_page_token),
    ] {
        if !token.is_empty() {
            link(relation, token);
        }
    }
    links
}

/// Converts an error of a page to a problem that names the wrong parameter.
pub(super) fn problem(request: &PageRequest, error: Error) -> Problem {
    let parameter = match error.part() {
        Some(ErrorPart::View) => {
            // Report a wrong parameter, not a wrong query: the named view cannot serve the query.
            let problem = Problem::invalid_parameter("view", error.message());
            return match error.hint() {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            };
        }
        Some(ErrorPart::Filter) => "filter",
        Some(ErrorPart::Sort) => "order_by",
        Some(ErrorPart::From) => "from",
        Some(ErrorPart::Fields) => "fields",
        Some(ErrorPart::PageSize) => "page_size",
        Some(ErrorPart::Skip) => "skip",
        Some(ErrorPart::Cursor) if request.around.is_some() => "around",
        Some(ErrorPart::Cursor) => "page_token",
        _ => return Problem::of_query(error),
    };
    Problem::of_query(error).with_parameter(parameter)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use recto::Stop;
    use recto::session::RowCount;
    use serde_json::json;

    use super::*;

    fn reply(next: &str, stop: Option<Stop>) -> PageReply {
        let record = json!({ "id": "1", "note": "\"é" });
        PageReply {
            records: vec![record.as_object().unwrap().clone()],
            next_page_token: next.into(),
            stop,
            row_page_tokens: Some(vec!["t".into()]),
            versions: Some(vec![Some(1_763_740_800_000_000), None]),
            row_count: Some(RowCount {
                total_size: 336_776,
                offset: Some(50),
                ..RowCount::default()
            }),
            lacks: 2,
            ..PageReply::default()
        }
    }

    fn represented(digest: u128, reply: &PageReply) -> (String, Option<String>) {
        let records = serde_json::to_string(&reply.records).unwrap();
        let reply = PageReply {
            records: Vec::new(),
            ..reply.clone()
        };
        representation(records, Some(digest), &reply)
    }

    #[test]
    fn the_text_is_that_of_the_reply() {
        for reply in [
            reply("n", None),
            reply("", Some(Stop::Bytes)),
            PageReply::default(),
        ] {
            let (text, _) = represented(7, &reply);
            assert_eq!(text, json!(reply).to_string());
        }
    }

    #[test]
    fn tags_are_of_records_and_ends() {
        let tag = |reply: PageReply| represented(7, &reply).1;
        assert_eq!(tag(reply("a", None)), tag(reply("b", None)));
        assert_ne!(tag(reply("a", None)), represented(8, &reply("a", None)).1);
        assert_ne!(tag(reply("a", None)), tag(reply("", None)));
        let not_the_first = PageReply {
            previous_page_token: "p".into(),
            ..reply("", None)
        };
        assert_ne!(tag(reply("", None)), tag(not_the_first));
        assert_eq!(tag(reply("a", Some(Stop::Time))), None);
    }

    #[test]
    fn links_keep_what_was_asked_but_the_place() {
        let uri = "/x?filter=a+%3D+1&page_token=old&page_size=5".parse().unwrap();
        let request = request::of_address(&uri).unwrap();
        assert_eq!(
            links(&request, &reply("new", None)),
            "<records?filter=a%20%3D%201&page_size=5>; rel=\"first\", \
             <records?filter=a%20%3D%201&page_size=5&page_token=new>; rel=\"next\""
        );
        let bare = request::of_address(&"/x?last=true".parse().unwrap()).unwrap();
        assert_eq!(links(&bare, &reply("", None)), "<records>; rel=\"first\"");
        let long = reply(&"n".repeat(MAX_LINK_CHARACTERS), None);
        assert_eq!(links(&bare, &long), "<records>; rel=\"first\"");
    }
}
