//! `GET /health`: state of the store, its views and its writers.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::{Session as _, WriterMetrics};

use super::layout::{Failure, Layout, page};
use super::page_url::PageUrl;
use super::text::grouped;
use super::views::{Seen, drift, seen, state};
use crate::access::{Access, EVERY_COLLECTION, Right};
use crate::app::App;
use crate::problem::Problem;

/// Handles requests for the page.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
) -> Result<Response, Failure> {
    if !access.reads_everything() {
        return Err(Problem::forbidden(EVERY_COLLECTION, Right::Read).into());
    }
    let store = app.session().describe().await?;
    let views = seen(&app, &access, None).await?;
    let running = app.upkeep().running();
    let clock = app.session().clock_status();
    let content = html! {
        div.heading {
            div {
                h1 { "Health" }
                p.sort_order { b { (store.store) } " · generation " (store.generation) " of its schema" }
            }
        }
        @for running in &running { p.notice.stopped role="status" { "Under way: " (running) } }
        @if let Some(warning) = clock.warning() {
            p.notice.stopped role="status" { "Warning: " (warning) "; " (clock.hint().unwrap_or_default()) "." }
        }
        section.health {
            h2 { "Views and their records" }
            (views_table(&views))
        }
        section.health {
            h2 { "Changes of records" }
            @match app.session().writer_metrics() {
                None => p.dim { "Each is one transaction with its views: nothing is left behind, whenever a process stops." },
                Some(metrics) => (writer(&metrics)),
            }
        }
    };
    let layout = Layout {
        title: "Health",
        trail: vec![("Health".to_owned(), None)],
        fills_window: false,
        has_rows: false,
    };
    Ok(page(StatusCode::OK, &layout, &content))
}

fn views_table(views: &[Seen]) -> Markup {
    if views.is_empty() {
        return html! { p.dim { "The schema declares no views." } };
    }
    let href = |collection: &str| {
        let url = PageUrl {
            collection: collection.to_owned(),
            ..PageUrl::default()
        };
        url.action("views")
    };
    html! {
        div.rows tabindex="0" role="region" aria-label="Views" {
            table {
                thead { tr { th scope="col" { "Collection" } th scope="col" { "View" } th scope="col" { "State" } th scope="col" { "Compared" } } }
                tbody {
                    @for view in views {
                        tr {
                            td { a href=(href(&view.status.collection)) { (view.status.collection) } }
                            td { (view.status.view) }
                            td { (state(&view.status.state)) }
                            td { (drift(view)) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the state of this process as a writer. Each writer recovers the unfinished changes of dead writers.
fn writer(metrics: &WriterMetrics) -> Markup {
    let standing = match (metrics.is_registered, metrics.has_lease) {
        (false, _) => "not registered: it has changed no record yet",
        (true, true) => "registered, and its lease holds: it may write",
        (true, false) => "registered, and its lease is over: it writes nothing until it has one again",
    };
    let counts = [
        ("Changes under way", metrics.under_way as u64),
        ("Intents not settled", metrics.intents),
        ("Processes it found dead", metrics.found_dead),
        ("Records it made whole for them", metrics.resolved),
        (
            "Left-over entries of views that its pages removed",
            metrics.removed_stale,
        ),
        ("Times it was found dead itself", metrics.lost),
    ];
    html! {
        dl.record {
            div { dt { "This process" } dd { (standing) } }
            @for (name, count) in counts { div { dt { (name) } dd { (grouped(count)) } } }
        }
    }
}
