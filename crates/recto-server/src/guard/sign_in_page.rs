//! Page that a browser shows if its user cancels the sign-in.

use axum::response::{Html, IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};

use crate::problem::Problem;

/// Returns the sign-in problem as a page. It uses no style sheet or script, because the browser
/// would ask for the token again for each of them.
pub(super) fn answer(problem: &Problem) -> Response {
    (problem.status, Html(render(problem).into_string())).into_response()
}

fn render(problem: &Problem) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Sign in · Recto" }
            }
            body {
                // Give the reply an element `#page`: a console page whose token expired replaces
                // its own `#page` by it.
                div #page {
                    main #main tabindex="-1" {
                        h1 { (problem.title()) }
                        p { "The server rejected the request: " (problem.detail()) "." }
                        p { "Sign in with any name, and the token as the password. " code { "recto token create" } " creates a token." }
                        p { a href="/" hx-boost="false" { "Sign in" } }
                    }
                }
            }
        }
    }
}
