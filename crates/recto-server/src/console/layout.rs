//! Layout of all pages of the console: head, bar, and error pages.

use axum::Extension;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::assets;
use super::text::capital;
use crate::access::Access;
use crate::problem::Problem;

tokio::task_local! {
    /// Rights of the current request. Every page shows them, and the code of error pages does not
    /// get the request.
    static WHO: Access;
}

/// Makes the rights of a request available to the layout of its reply.
pub(super) async fn note_who(Extension(access): Extension<Access>, request: Request, next: Next) -> Response {
    WHO.scope(access, next.run(request)).await
}

/// Settings of htmx:
///
/// - No eval and no inline styles, which the content security policy forbids.
/// - No copies of pages in the storage of the browser.
/// - Every reply is shown, including errors.
/// - An element inherits only the attributes that `hx-inherit` of the body names.
const HTMX: &str = r#"{"allowEval":false,"disableInheritance":true,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"scrollIntoViewOnBoost":false,"attributesToSettle":[],"responseHandling":[{"code":"204","swap":false},{"code":"...","swap":true}]}"#;

#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) title: &'a str,
    /// Breadcrumbs: names of pages with their addresses. The last is the current page, without an
    /// address.
    pub(super) trail: Vec<(String, Option<String>)>,
    /// True if the page is as high as the window, so that its table scrolls inside the page.
    pub(super) fills_window: bool,
    /// True if the page has a first row. The layout then has a link that skips to the row.
    pub(super) has_rows: bool,
}

/// Id of the HTML element in the first row of a table, the target of a skip link.
pub(super) const FIRST_ROW: &str = "first-row";

impl Layout<'_> {
    /// Returns the whole HTML page with `content`.
    pub(super) fn render(&self, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="same-origin";
                    meta name="htmx-config" content=(HTMX);
                    title { (self.title) " · Recto" }
                    link rel="icon" type="image/svg+xml" href=(assets::href("icon.svg"));
                    link rel="stylesheet" href=(assets::href("console.css"));
                    script src=(assets::href("htmx.js")) defer {}
                    script src=(assets::href("console.js")) defer {}
                }
                body hx-boost="true" hx-target="#page" hx-select="#page" hx-swap="outerHTML show:none"
                    hx-inherit="hx-boost hx-target hx-select hx-swap" {
                    a.skip href="#main" hx-boost="false" { "Skip to content" }
                    p #status .unseen role="status" aria-live="polite" {}
                    div #page class=[self.fills_window.then_some("fills")] {
                        @if self.has_rows { a.skip href={ "#" (FIRST_ROW) } hx-boost="false" { "Skip to the rows" } }
                        (self.bar())
                        main #main tabindex="-1" { (content) }
                    }
                    (keys())
                }
            }
        }
    }

    fn bar(&self) -> Markup {
        html! {
            header.bar {
                nav aria-label="Location" {
                    a.brand href="/" { "Recto" }
                    @for (name, href) in &self.trail {
                        span.slash aria-hidden="true" { "/" }
                        @match href {
                            Some(href) => a href=(href) { (name) },
                            None => span aria-current="page" { (name) },
                        }
                    }
                }
                nav.aside aria-label="Help" {
                    @if is_read_only() {
                        span title="This server rejects all changes" { "Read-only" }
                    }
                    button.quiet.needs-script type="button" data-open="keys" title="Keys (?)" { "Keys" }
                    a href="/docs" hx-boost="false" { "API" }
                    (signed_in())
                }
            }
        }
    }
}

/// Returns whether the server rejects every change, for the current request's page.
fn is_read_only() -> bool {
    WHO.try_with(Access::is_read_only).unwrap_or(false)
}

/// Returns a link with the name of the user's token, or nothing on a server without tokens.
fn signed_in() -> Markup {
    let name = WHO.try_with(|access| access.token_id.is_some().then(|| access.name.clone()));
    html! {
        @if let Ok(Some(name)) = name {
            a.who href="/access" title=(format!("Signed in with the token {name}: show its rights, or sign out")) { (name) }
        }
    }
}

/// Returns the dialog with the keyboard shortcuts, which `?` opens.
fn keys() -> Markup {
    let keys = [
        ("n", "next page"),
        ("p", "previous page"),
        ("f", "first page"),
        ("l", "last page"),
        ("j", "next row"),
        ("k", "previous row"),
        ("Enter", "open the row"),
        ("/", "filter"),
        ("g", "jump to a value"),
        ("x", "plan of the page"),
        ("u", "up"),
        ("?", "keyboard shortcuts"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl {
                @for (key, meaning) in keys { div { dt { kbd { (key) } } dd { (meaning) } } }
            }
            form method="dialog" hx-boost="false" { button { "Close" } }
        }
    }
}

/// Returns the panel of an error, which can be the whole content of a page.
pub(super) fn problem_panel(problem: &Problem) -> Markup {
    problem_with(problem, &html! {})
}

/// Returns the panel of an error, with `more` below the error's text.
pub(super) fn problem_with(problem: &Problem, more: &Markup) -> Markup {
    html! {
        section.problem role="alert" {
            h2 { (problem.title()) }
            p { (detail(problem)) }
            @if let Some(suggestion) = problem.suggestion() {
                p { (sentence(&suggestion.introduction())) }
                pre tabindex="0" { code { (suggestion.declaration()) } }
            } @else if let Some(hint) = problem.hint() {
                p.hint { (sentence(hint)) }
            }
            (more)
        }
    }
}

/// Returns the detail of a problem as a sentence. A field's name at its start keeps its case.
fn detail(problem: &Problem) -> String {
    let text = problem.detail();
    match problem.field() {
        Some(field) if text.starts_with(field) => ended(text),
        _ => sentence(text),
    }
}

/// Converts a message to a sentence: capital first letter and a full stop. A name at its start
/// keeps its case.
pub(super) fn sentence(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    let is_name = word.contains(['_', '=', '/']) || word.contains(|c: char| c.is_ascii_digit());
    if is_name {
        return ended(text);
    }
    ended(&capital(text))
}

/// Appends a full stop, unless the text is empty or ends with punctuation, a quotation mark or a backtick.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with(['.', '!', '?', ':', '"', '`']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// Error of a handler, which becomes an error page.
#[derive(Debug)]
pub(super) struct Failure(pub(super) Problem);

impl<E: Into<Problem>> From<E> for Failure {
    fn from(problem: E) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let content = html! {
            h1 {
                @match self.0.status {
                    StatusCode::NOT_FOUND => "Page not found",
                    StatusCode::FORBIDDEN => "Access denied",
                    _ => "Request failed",
                }
            }
            (problem_panel(&self.0))
            p { a href="/" { "All collections" } }
        };
        let layout = Layout {
            title: "Problem",
            trail: Vec::new(),
            fills_window: false,
            has_rows: false,
        };
        let mut answer = page(self.0.status, &layout, &content);
        answer.extensions_mut().insert(self.0.kind());
        answer
    }
}

/// Returns a page as a reply that no cache may store, because the page contains data.
pub(super) fn page(status: StatusCode, layout: &Layout<'_>, content: &Markup) -> Response {
    let headers = [(axum::http::header::CACHE_CONTROL, "no-store")];
    (status, headers, Html(layout.render(content).into_string())).into_response()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_a_sentence() {
        assert_eq!(sentence("there is none"), "There is none.");
        assert_eq!(sentence("why?"), "Why?");
        assert_eq!(sentence(""), "");
        assert_eq!(sentence("ß"), "SS.");
        assert_eq!(sentence("page_size is 7"), "page_size is 7.");
        let of_field = |field: &str| Problem::invalid_record("id: not a bigint").with_field(field);
        assert_eq!(detail(&of_field("id")), "id: not a bigint.");
        assert_eq!(detail(&of_field("other")), "Id: not a bigint.");
    }
}
