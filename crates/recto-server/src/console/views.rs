//! `GET /collections/{collection}/views`: a page with the views of a collection and their states.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::schema::Collection;
use recto::session::{VerifiedView, ViewStatus};

use super::heading::arranged;
use super::layout::{Failure, Layout, page};
use super::page_url::PageUrl;
use super::text::{counted, grouped};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;

/// Interval at which the page refreshes while a view changes its state.
const REFRESH: &str = "every 2s";
/// Maximum age that is shown as "just now", in seconds.
const NOW_SECONDS: u64 = 9;
const MINUTE_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 60 * MINUTE_SECONDS;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;

/// View with the result of its last comparison with records, as far as the token may see it.
pub(super) struct Seen {
    pub(super) status: ViewStatus,
    /// Result of the last comparison, and its age in seconds; `None` if unknown or hidden from the
    /// token.
    compared: Option<(VerifiedView, u64)>,
}

/// Returns the views that the token may read, of all collections or of one.
pub(super) async fn seen(app: &App, access: &Access, collection: Option<&str>) -> Result<Vec<Seen>, Problem> {
    let views = access.views(app.session()).await?.into_iter();
    let views = views.filter(|view| collection.is_none_or(|name| name == view.collection));
    let with_drift = |status: ViewStatus| {
        let compared = app.upkeep().compared(&status.collection, &status.view);
        Seen {
            compared: compared.filter(|_| access.reads_all_of(&status.collection)),
            status,
        }
    };
    Ok(views.map(with_drift).collect())
}

/// Handles `GET /collections/{collection}/views`: shows the views of a collection.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let session = access.session(app.session(), &name, Right::Read)?;
    let schema = session.schema().await?;
    let collection = schema
        .collection(&name)
        .ok_or_else(|| Problem::no_collection(&name))?;
    let views = seen(&app, &access, Some(&name)).await?;
    let url = PageUrl {
        collection: name.clone(),
        ..PageUrl::default()
    };
    let content = html! {
        div.heading {
            div {
                h1 { "Views of " (name) }
                p.sort_order { "Other sort orders of the same records. They follow every change." }
            }
        }
        (list(collection, &views, &url))
        p.ways {
            a.button data-key="u" href=(url.href()) { "← Back to the records" }
            @if access.reads_all_of(&url.collection) && collection.attached.is_none() {
                a.button href=(url.action("design")) title="Design views for the queries of this collection" { "Design" }
            }
        }
    };
    let layout = Layout {
        title: "Views",
        trail: vec![(name, Some(url.href())), ("Views".to_owned(), None)],
        fills_window: false,
        has_rows: false,
    };
    Ok(page(StatusCode::OK, &layout, &content))
}

/// Returns the list of views. It refreshes while a view changes its state.
fn list(collection: &Collection, views: &[Seen], url: &PageUrl) -> Markup {
    let href = url.action("views");
    let is_moving = views.iter().any(|view| view.status.state != "ready");
    if views.is_empty() {
        return html! {
            section.empty {
                h2 { "No views" }
                p { "The records have only their own order. Declare views in the schema as "
                    code { "[collection." (collection.name) ".view.NAME]" } "." }
            }
        };
    }
    html! {
        ul.collections #views hx-get=[is_moving.then_some(&href)] hx-trigger=[is_moving.then_some(REFRESH)]
            hx-select="#views" hx-target="#views" hx-swap="outerHTML" {
            @for view in views { li { (entry(collection, view)) } }
        }
    }
}

fn entry(collection: &Collection, view: &Seen) -> Markup {
    let Seen { status, .. } = view;
    let has_all = status.fields.len() == collection.fields.len();
    html! {
        h2 { (status.view) " " (state(&status.state)) }
        p.sort_order { (arranged(&status.partition, &status.order)) }
        @if let Some(rows) = status.rows_filled {
            p.notice.stopped role="status" { (counted(rows, "record", "records")) " filled so far" }
        }
        dl.facts {
            div { dt { "Fields" } dd { @if has_all { "all" } @else { (status.fields.join(", ")) } } }
            @if !status.collate.is_empty() {
                div { dt { "Collation" } dd { (collations(status)) } }
            }
            @if status.misfits.total() > 0 {
                div { dt { "Lacks" } dd { (status.misfits) } }
            }
            div { dt { "Table" } dd { code { (status.table) } } }
            div { dt { "Compared" } dd { (drift(view)) } }
        }
    }
}

/// Describes the collations of a view's fields: `name as in de`.
fn collations(status: &ViewStatus) -> String {
    let each = status
        .collate
        .iter()
        .map(|(field, locale)| format!("{field} as in {locale}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the state of a view as a label, with an explanation in its tooltip.
pub(super) fn state(state: &str) -> Markup {
    let about = match state {
        "building" => "Recto writes the view and fills it with existing records. Queries do not use it yet.",
        "ready" => "Recto writes the view, and queries use it.",
        "outdated" => {
            "Its sort keys have another collation number than this program uses. Apply the schema again to \
             rebuild the view."
        }
        "retiring" => "The view is being removed. Recto writes it while other processes may read it.",
        _ => "The view is being removed. No process reads or writes it.",
    };
    html! { span.mark.state .moving[state != "ready"] title=(about) { (state) } }
}

/// Describes the differences that the last comparison of the view with its records found.
pub(super) fn drift(view: &Seen) -> Markup {
    let Some((found, seconds)) = &view.compared else {
        return html! { span.dim { "not since this server started: " code { "recto verify " (view.status.collection) } } };
    };
    let left = found.wrong() - found.repaired;
    let ago = ago(*seconds);
    html! {
        @if left > 0 {
            strong.bad { (grouped(left)) " wrong" } " of " (grouped(found.records)) ": "
            (parts(found)) ", " (ago) ". " code { "recto repair " (found.collection) } " repairs it."
        } @else if found.misfits.total() > 0 {
            (counted(found.records, "record", "records")) ", and the view lacks " (found.misfits) ", " (ago)
        } @else {
            "no differences, " (counted(found.records, "record", "records"))
            @if found.repaired > 0 { ", " (grouped(found.repaired)) " of them repaired" }
            ", " (ago)
        }
    }
}

/// Formats an age in seconds approximately, such as `5 min ago`.
fn ago(seconds: u64) -> String {
    match seconds {
        0..=NOW_SECONDS => "just now".to_owned(),
        _ if seconds < 2 * MINUTE_SECONDS => format!("{seconds} s ago"),
        _ if seconds < 2 * HOUR_SECONDS => format!("{} min ago", seconds / MINUTE_SECONDS),
        _ if seconds < 2 * DAY_SECONDS => format!("{} h ago", seconds / HOUR_SECONDS),
        _ => format!("{} days ago", seconds / DAY_SECONDS),
    }
}

fn parts(found: &VerifiedView) -> String {
    let parts = [
        (found.missing, "missing"),
        (found.orphan, "left over"),
        (found.differing, "differing"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, what)| format!("{} {what}", grouped(*count)));
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_about() {
        for (seconds, told) in [
            (0, "just now"),
            (19, "19 s ago"),
            (125, "2 min ago"),
            (7_300, "2 h ago"),
            (400_000, "4 days ago"),
        ] {
            assert_eq!(ago(seconds), told);
        }
    }
}
