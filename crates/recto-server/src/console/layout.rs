//! What all pages share: head, bar, and the page of an error.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::assets;
use crate::problem::Problem;

/// htmx without what a content security policy forbids (eval, inline styles) and without copies of
/// pages in the browser's storage; every answer is shown, errors too.
const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"scrollIntoViewOnBoost":false,"attributesToSettle":[],"responseHandling":[{"code":"204","swap":false},{"code":"...","swap":true}]}"#;

/// A page of the console.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) title: &'a str,
    /// Where it is: names, and the addresses of all but the last.
    pub(super) trail: Vec<(String, Option<String>)>,
    /// Whether the page is as high as the window, with its table scrolling inside.
    pub(super) fills_window: bool,
}

impl Layout<'_> {
    /// The page around its content.
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
                body hx-boost="true" hx-target="#page" hx-select="#page" hx-swap="outerHTML show:none" {
                    a.skip href="#main" hx-boost="false" { "Skip to content" }
                    p #status .unseen role="status" aria-live="polite" {}
                    div #page class=[self.fills_window.then_some("fills")] {
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
                nav aria-label="Where you are" {
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
                    button.quiet.needs-script type="button" data-open="keys" title="Keys (?)" { "Keys" }
                    a href="/docs" hx-boost="false" { "API" }
                }
            }
        }
    }
}

/// The keys, opened by `?`.
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
        ("x", "how the page was found"),
        ("u", "up"),
        ("?", "these keys"),
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

/// An error, where it stands alone or on a page.
pub(super) fn problem_panel(problem: &Problem) -> Markup {
    let json = problem.to_json();
    let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    let hint = text("hint");
    html! {
        section.problem role="alert" {
            h2 { (text("title")) }
            p { (sentence(&text("detail"))) }
            @if let Some((introduction, view)) = view_of(&hint) {
                p { (introduction) }
                pre tabindex="0" { code { (view) } }
            } @else if !hint.is_empty() {
                p.hint { (sentence(&hint)) }
            }
        }
    }
}

/// The view that a planner's hint names, as text for the schema, and what is said before it.
pub(super) fn view_of(hint: &str) -> Option<(String, &str)> {
    let start = if hint.starts_with('[') {
        0
    } else {
        hint.find("\n[")? + 1
    };
    let introduction = match hint[..start].trim() {
        "" => "This view would serve it:".to_owned(),
        said => sentence(said),
    };
    Some((introduction, &hint[start..]))
}

/// A message as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    let end = if text.ends_with(['.', '!', '?', ':', '"', '`']) || text.is_empty() {
        ""
    } else {
        "."
    };
    format!("{}{}{end}", first.unwrap_or_default(), characters.as_str())
}

/// A problem as a page.
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
            h1 { "That did not work" }
            (problem_panel(&self.0))
            p { a href="/" { "All collections" } }
        };
        let layout = Layout {
            title: "Problem",
            trail: Vec::new(),
            fills_window: false,
        };
        page(self.0.status, &layout, &content)
    }
}

/// A page as it is answered. No cache keeps it: it holds data.
pub(super) fn page(status: StatusCode, layout: &Layout<'_>, content: &Markup) -> Response {
    let headers = [(axum::http::header::CACHE_CONTROL, "no-store")];
    (status, headers, Html(layout.render(content).into_string())).into_response()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_a_view_or_is_a_sentence() {
        assert_eq!(
            view_of("[a]\nb").unwrap(),
            ("This view would serve it:".to_owned(), "[a]\nb")
        );
        assert_eq!(view_of("with it:\n[a]").unwrap(), ("With it:".to_owned(), "[a]"));
        assert_eq!(view_of("pin [a] field"), None);
    }

    #[test]
    fn a_message_becomes_a_sentence() {
        assert_eq!(sentence("there is none"), "There is none.");
        assert_eq!(sentence("why?"), "Why?");
        assert_eq!(sentence(""), "");
        assert_eq!(sentence("ß"), "SS.");
    }
}
