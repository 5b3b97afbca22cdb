//! Protection against cross-site request forgery (CSRF).
//!
//! A browser sends a person's credentials with every request, even if a page of another site makes
//! the request. But the browser reports the page's site (`Sec-Fetch-Site`, Fetch Metadata;
//! `Origin`, RFC 6454), and pages cannot change these headers. Other programs send neither header,
//! and no page can make them send requests. Requests with a bearer token are not checked, because a
//! browser never adds a bearer token on its own.

use axum::http::{Method, Request, header};

use super::hosts::without_port;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Rejects a request that changes data and comes from a page of another site.
pub(crate) fn check<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let headers = request.headers();
    // Accept `none`: the person started the request, for example with a typed address or a
    // bookmark.
    let from_here = match headers.get("sec-fetch-site") {
        None => true,
        Some(site) => matches!(site.as_bytes(), b"same-origin" | b"none"),
    };
    let same_origin = match headers.get(header::ORIGIN) {
        None => true,
        Some(origin) => origin
            .to_str()
            .is_ok_and(|origin| is_ours(origin, request, hosts)),
    };
    if from_here && same_origin {
        return Ok(());
    }
    Err(Problem::new(
        ProblemType::CrossSite,
        "a page of another site sent this request, which would change data",
    )
    .with_hint("in a program, send a bearer token, or neither Origin nor Sec-Fetch-Site"))
}

/// Returns whether an origin has the host of the request, or one of the configured hosts.
fn is_ours<B>(origin: &str, request: &Request<B>, hosts: &[String]) -> bool {
    let Some((_, authority)) = origin.split_once("://") else {
        return false;
    };
    let of_header = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let asked = of_header.or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str));
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case(authority))
        || hosts
            .iter()
            .any(|host| host.eq_ignore_ascii_case(without_port(authority)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ask(method: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder()
            .method(method)
            .uri("/")
            .header("host", "localhost:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap(), &["db.example".to_owned()]).is_ok()
    }

    #[test]
    fn other_sites_change_nothing() {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert!(ask(method, &[]), "no browser");
            assert!(ask(method, &[("sec-fetch-site", "same-origin")]));
            assert!(ask(
                method,
                &[
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "http://localhost:8080")
                ]
            ));
            assert!(ask(method, &[("origin", "https://db.example")]));
            for headers in [
                &[("sec-fetch-site", "cross-site")][..],
                &[("sec-fetch-site", "same-site")],
                &[("sec-fetch-site", "Same-Origin")],
                &[("origin", "null")],
                &[("origin", "http://localhost:8081")],
                &[("origin", "http://localhost:8080.evil.example")],
                &[
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "http://evil.example"),
                ],
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://localhost:8080"),
                ],
            ] {
                assert!(!ask(method, headers), "{headers:?}");
            }
        }
        assert!(ask("GET", &[("sec-fetch-site", "cross-site")]), "links lead here");
    }
}
