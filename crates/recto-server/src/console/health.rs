//! `GET /health`: a page with the state of the store, its views and its writers.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::session::CommitLog;
use recto::{Session as _, WriterMetrics};

use super::layout::{Failure, Layout, page, sentence};
use super::page_url::PageUrl;
use super::text::{bytes, counted, duration, grouped};
use super::views::{Seen, drift, seen, state};
use crate::access::{Access, EVERY_COLLECTION, Right};
use crate::app::App;
use crate::problem::Problem;

/// Handles `GET /health`: shows the state of the store.
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
                p.sort_order { b { (store.store) } " · generation " (store.generation) " of the schema" }
            }
        }
        @for running in &running { p.notice.stopped role="status" { "Running: " (running) } }
        @if let Some(warning) = clock.warning() {
            p.notice.stopped role="status" { "Warning: " (warning) "; " (clock.hint().unwrap_or_default()) "." }
        }
        @if let Some(cluster) = &store.cluster {
            section.health {
                h2 { "Cluster" }
                p { "The nodes run " (cluster.version()) "." }
                @for lack in &cluster.lacks { p.notice.stopped role="status" { (sentence(lack)) } }
            }
        }
        section.health {
            h2 { "Views and their records" }
            (views_table(&views))
        }
        section.health {
            h2 { "Changes of records" }
            @match app.session().writer_metrics() {
                None => p.dim { "Each change is one transaction with its views. A process that stops leaves no unfinished change." },
                Some(metrics) => (writer(&metrics)),
            }
        }
        @if let Some(log) = app.session().commit_log() {
            section.health {
                h2 { "Commit log" }
                (commit_log(&log))
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

/// Describes the commit log of an embedded store.
fn commit_log(log: &CommitLog) -> Markup {
    let last = log.last_checkpoint_age_seconds.map_or_else(
        || "none since the store was opened".to_owned(),
        |seconds| format!("{} ago", duration(seconds.saturating_mul(1_000_000))),
    );
    let rows = [
        ("Size of the log files", bytes(log.file_bytes)),
        ("Written since the last checkpoint", bytes(log.record_bytes)),
        ("Last checkpoint", last),
        ("Checkpoints since the store was opened", grouped(log.checkpoints)),
        (
            "Writes restored from the log after a crash",
            counted(log.replayed_records, "record", "records"),
        ),
    ];
    html! {
        p.dim {
            "Recto appends each small write to a log on disk before it confirms the write. At a checkpoint, it \
             brings all writes of the log into the data file. After a crash, it restores the writes since the \
             last checkpoint from the log."
        }
        dl.record {
            @for (name, value) in rows { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// Describes this process as a writer of the store. Each writer also completes the changes of
/// writers that crashed.
fn writer(metrics: &WriterMetrics) -> Markup {
    let standing = match (metrics.is_registered, metrics.has_lease) {
        (false, _) => "not registered: it has not changed a record yet",
        (true, true) => "registered, with a valid lease: it can write",
        (true, false) => "registered, without a valid lease: it cannot write until it renews the lease",
    };
    let counts = [
        ("Changes in progress", metrics.under_way as u64),
        ("Unfinished intents", metrics.intents),
        ("Dead processes that it found", metrics.found_dead),
        ("Records that it completed for them", metrics.resolved),
        (
            "Stale entries of views that its pages removed",
            metrics.removed_stale,
        ),
        ("Times that it was declared dead itself", metrics.lost),
    ];
    html! {
        dl.record {
            div { dt { "This process" } dd { (standing) } }
            @for (name, count) in counts { div { dt { (name) } dd { (grouped(count)) } } }
        }
    }
}
