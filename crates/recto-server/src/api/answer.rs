//! Replies to requests: entity tags, caching, and the methods of a resource.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::session::Outcome;
use recto_api::operations;
use recto_api::records::MadeChange;
use serde_json::{Value as Json, json};

use super::body::PATCHES;
use super::caller::Caller;
use super::{address, conditions};
use crate::app::App;
use crate::problem::{ACCEPT_PATCH, Problem};

/// Number of headers for which the header map of a reply reserves memory.
const HEADERS: usize = 16;

/// Number of bytes of the hash that an entity tag contains.
const TAG_BYTES: usize = 16;

/// `Cache-Control` of a reply that the client may store, but must revalidate (`If-None-Match`)
/// before each use.
const REVALIDATED: HeaderValue = HeaderValue::from_static("private, no-cache");
/// `Cache-Control` of a reply that no cache may store.
const NOT_KEPT: HeaderValue = HeaderValue::from_static("no-store");
pub(crate) const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns a route for a resource with its methods. It answers OPTIONS, and rejects other methods
/// with an error that names the allowed methods.
pub(crate) fn resource(allow: &str, methods: MethodRouter<App>) -> MethodRouter<App> {
    let allow: Arc<str> = allow.into();
    let allowed = Arc::clone(&allow);
    methods
        .options(move || async move { options(&allow) })
        .fallback(move |method: Method| async move { Problem::method_not_allowed(&method, &allowed) })
}

/// Returns a route like [`resource`], whose error for other methods also has `hint`.
pub(super) fn resource_with_hint(
    allow: &str,
    hint: &'static str,
    methods: MethodRouter<App>,
) -> MethodRouter<App> {
    let allowed: Arc<str> = allow.into();
    resource(allow, methods).fallback(move |method: Method| async move {
        Problem::method_not_allowed(&method, &allowed).with_hint(hint)
    })
}

/// Returns a route whose allowed methods depend on the collection in the path.
pub(super) fn resource_of_collection(path: &'static str, methods: MethodRouter<App>) -> MethodRouter<App> {
    methods
        .options(move |caller: Caller, uri: Uri| async move { options(&allowed(path, &caller, &uri).await) })
        .fallback(move |caller: Caller, method: Method, uri: Uri| async move {
            Problem::method_not_allowed(&method, &allowed(path, &caller, &uri).await)
        })
}

/// Returns the methods that the collection in `uri` allows for the path `path`. If the caller does
/// not see the collection, returns all methods of the path.
async fn allowed(path: &str, caller: &Caller, uri: &Uri) -> String {
    let definition = match address::collection(uri) {
        Ok(name) => caller.definition(&name).await.ok(),
        Err(_) => None,
    };
    operations::methods(path, |operation| {
        definition
            .as_ref()
            .is_none_or(|definition| operation.requires.holds_for(definition))
    })
}

/// Answers OPTIONS with the methods of a resource, and PATCH with the accepted types of patches.
pub(super) fn options(allow: &str) -> Response {
    let mut headers = HeaderMap::new();
    headers.extend(
        HeaderValue::from_str(allow)
            .ok()
            .map(|allow| (header::ALLOW, allow)),
    );
    if allow.contains(Method::PATCH.as_str()) {
        headers.insert(ACCEPT_PATCH, HeaderValue::from_static(PATCHES));
    }
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Returns a strong entity tag, which changes with any byte of `bytes`.
pub(crate) fn strong_tag(bytes: &[u8]) -> String {
    let digest = blake3::hash(bytes);
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest.as_bytes()[..TAG_BYTES]))
}

/// Returns a reply with an entity tag, or 304 without a body if `If-None-Match` of the request has
/// the tag.
pub(crate) fn tagged(
    asked: &HeaderMap,
    tag: &str,
    content_type: HeaderValue,
    body: impl Into<Body>,
) -> Response {
    let is_known = is_known(asked, tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(body.into())
    };
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    if !is_known {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    headers.insert(header::CACHE_CONTROL, REVALIDATED);
    set(headers, header::ETAG, tag);
    response
}

/// Returns a JSON reply with a strong entity tag, or 304 if `If-None-Match` of the request has the
/// tag.
pub(crate) fn json(asked: &HeaderMap, value: &Json) -> Response {
    let text = value.to_string();
    tagged(asked, &strong_tag(text.as_bytes()), APPLICATION_JSON, text)
}

/// Returns a reply without an entity tag. No cache may store the reply.
pub(crate) fn untagged(content_type: HeaderValue, body: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, NOT_KEPT),
    ];
    (headers, body.into()).into_response()
}

/// Returns a JSON reply that no cache may store.
pub(crate) fn json_once(value: &Json) -> Response {
    untagged(APPLICATION_JSON, value.to_string())
}

/// Returns a reply without a body (204).
pub(crate) fn no_content() -> Response {
    (StatusCode::NO_CONTENT, [(header::CACHE_CONTROL, NOT_KEPT)]).into_response()
}

/// Returns the reply to a change of a record. The new version is the entity tag. The status is 202
/// if some views do not show the change yet.
pub(super) fn changed(status: StatusCode, outcome: Outcome) -> Response {
    let Some(version) = outcome.version else {
        return no_content();
    };
    let mut response = if outcome.pending {
        pending(version)
    } else {
        (status, [(header::CACHE_CONTROL, NOT_KEPT)]).into_response()
    };
    set(response.headers_mut(), header::ETAG, &conditions::tag(version));
    response
}

/// Returns the reply to the deletion of a record: 204, or 202 if some views still show the record.
pub(super) fn deleted(outcome: Outcome) -> Response {
    match outcome.version {
        Some(version) if outcome.pending => pending(version),
        _ => no_content(),
    }
}

fn pending(version: i64) -> Response {
    let change = MadeChange {
        version: Some(version.to_string()),
        pending: true,
    };
    let mut response = json_once(&json!(change));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Sets a header to a text that Recto created. Such a text is always a valid header value.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Returns whether `If-None-Match` of a request names the tag. The comparison is weak (RFC 9110,
/// 13.1.2).
fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    fn opaque(tag: &str) -> &str {
        tag.trim().trim_start_matches("W/")
    }
    let wanted = opaque(tag);
    let given = asked.get_all(header::IF_NONE_MATCH).iter();
    let mut given = given.filter_map(|value| value.to_str().ok());
    given.any(|list| list.trim() == "*" || list.split(',').any(|one| opaque(one) == wanted))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn knows(list: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, list.parse().unwrap());
        is_known(&headers, "\"abc\"")
    }

    #[test]
    fn tags_are_compared_weakly() {
        for known in [
            "\"abc\"",
            "W/\"abc\"",
            "\"x\", \"abc\"",
            "\"x\",W/\"abc\" , \"y\"",
            "*",
        ] {
            assert!(knows(known), "{known}");
        }
        for other in ["\"ab\"", "abc", "\"ABC\"", "", "\"*\""] {
            assert!(!knows(other), "{other}");
        }
    }
}
