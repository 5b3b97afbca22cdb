//! `/collections/{collection}/design`: proposes the views that a collection needs for its queries.
//! The queries are those that the server received since it started, or those that the user types.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::design::{
    Design, DesignError, ProposedView, ServedQuery, Unservable, WorkloadQuery, design, parse_queries,
    queries_text, servable,
};
use recto::schema::Collection;
use recto::{Error, ErrorKind};

use super::layout::{Failure, Layout, page, problem_panel};
use super::page_url::{PageUrl, first, parameters};
use super::text::{counted, grouped, is_plain, lines};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Name of the form field that contains the queries.
const QUERIES: &str = "queries";
/// Minimum and maximum height of the form field with the queries, in lines.
const MIN_LINES: usize = 8;
const MAX_LINES: usize = 24;

/// Handles `GET /collections/{collection}/design`: proposes views for the queries that the server
/// received.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let collection = collection(&app, &access, &name).await?;
    let log = app.asked().of(&name);
    let (queries, unservable) = servable(&collection, log.queries).map_err(problem)?;
    let beside = SkippedQueries {
        left_out: log.left_out,
        unservable,
    };
    answer(&app, collection, &queries_text(&queries), &beside).await
}

/// Handles `POST /collections/{collection}/design`: proposes views for the queries that the user
/// typed.
pub(super) async fn ask(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let sent = parameters(&body);
    let text = lines(first(&sent, QUERIES).unwrap_or_default());
    let collection = collection(&app, &access, &name).await?;
    answer(&app, collection, &text, &SkippedQueries::default()).await
}

/// Received queries that the proposal does not consider, because they exceed a limit or no view can
/// serve them.
#[derive(Debug, Default)]
struct SkippedQueries {
    left_out: usize,
    unservable: Vec<Unservable>,
}

/// Returns the collection, if the token may see all its records and views can be designed for it.
async fn collection(app: &App, access: &Access, name: &str) -> Result<Collection, Failure> {
    // The page shows queries of all clients, with the row filters of their tokens. So it requires a
    // token that may read all records.
    access.check_reads_all_of(name, Right::Read)?;
    let schema = access.session_over(app.session(), [])?.schema().await?;
    let collection = schema
        .collection(name)
        .ok_or_else(|| Problem::no_collection(name))?;
    if let Some(table) = &collection.attached {
        let message = format!("collection {name} has no views: it is attached to table {table}");
        let error = Error::new(ErrorKind::NotOffered, message);
        return Err(error
            .with_hint("copy it into a collection of Recto, which can have views")
            .into());
    }
    Ok(collection.as_ref().clone())
}

async fn answer(
    app: &App,
    collection: Collection,
    text: &str,
    beside: &SkippedQueries,
) -> Result<Response, Failure> {
    let name = collection.name.clone();
    let designed = if text.trim().is_empty() {
        None
    } else {
        Some(designed(app, collection, text.to_owned()).await)
    };
    let url = PageUrl {
        collection: name.clone(),
        ..PageUrl::default()
    };
    let content = content(&url, text, beside, designed.as_ref());
    let layout = Layout {
        title: "Design",
        trail: vec![
            (name, Some(url.href())),
            ("Views".to_owned(), Some(url.action("views"))),
            ("Design".to_owned(), None),
        ],
        fills_window: false,
        has_rows: false,
    };
    let status = match &designed {
        Some(Err(problem)) => problem.status,
        _ => StatusCode::OK,
    };
    Ok(page(status, &layout, &content))
}

/// Proposes views for queries. The search can take seconds, so it runs on its own thread, and
/// continues if the client disconnects. Only one search runs at a time, so that abandoned searches
/// do not accumulate.
async fn designed(app: &App, collection: Collection, text: String) -> Result<Design, Problem> {
    let begun = app.begin_design().ok_or_else(busy)?;
    let work = move || {
        let designed = parse_queries(&text).and_then(|queries| design(&collection, &queries));
        drop(begun);
        designed
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(designed) => designed.map_err(problem),
        Err(error) => Err(Problem::internal(format!("the design failed: {error}"))),
    }
}

fn busy() -> Problem {
    let problem = Problem::new(ProblemType::Busy, "the server makes only one design at a time")
        .with_title("Another user is designing views now");
    problem.with_hint("try again in a few seconds")
}

fn problem(error: DesignError) -> Problem {
    let problem = Problem::new(ProblemType::InvalidQueries, error.to_string());
    match error.hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

fn content(
    url: &PageUrl,
    text: &str,
    beside: &SkippedQueries,
    designed: Option<&Result<Design, Problem>>,
) -> Markup {
    html! {
        div.heading {
            div {
                h1 { "Views for the queries of " (url.collection) }
                p.sort_order {
                    @match designed {
                        Some(Ok(design)) => (design.summary()),
                        _ => "The minimum number of views that serve each query without checking rows one by \
                              one.",
                    }
                }
            }
        }
        @match designed {
            Some(Ok(design)) => (report(design, beside.left_out)),
            Some(Err(problem)) => (problem_panel(problem)),
            None if beside.unservable.is_empty() => p.notice role="status" {
                "This server has received no queries of this collection since its start. Enter queries below."
            },
            None => {},
        }
        @if !beside.unservable.is_empty() {
            section.health {
                h2 { "Received queries that no view can serve" }
                (unservable(&beside.unservable))
            }
        }
        (form(url, text))
        p.ways { a.button data-key="u" href=(url.action("views")) { "← Back to the views" } }
    }
}

fn report(design: &Design, left_out: usize) -> Markup {
    html! {
        section.health {
            h2 { "Queries" }
            (queries(&design.queries))
            @if left_out > 0 {
                p.dim { (counted(left_out as u64, "more query", "more queries")) ", not in this design" }
            }
        }
        @if !design.views.is_empty() {
            section.health {
                h2 { "Views to add" }
                (views(&design.views))
                p.dim { "Add them to the schema, and run " code { "recto apply" } ". Recto builds them while the collection is in use." }
            }
        }
        section.health {
            h2 { "Tables that each record is written to" }
            p { (design.written()) }
        }
        @if !design.alternatives.is_empty() {
            section.health {
                h2 { "Queries without one of the views" }
                (alternatives(design))
                p.dim { "Row by row needs allow_filter_scan. A merge over a field needs its values in the filter, as an OR of equalities." }
            }
        }
        @if !design.unused.is_empty() {
            section.health {
                h2 { "Views that serve none of these queries" }
                p { (design.unused.join(", ")) }
            }
        }
        @if let Some(instead) = &design.from_nothing {
            section.health {
                h2 { "Without the present views, " (counted(instead.len() as u64, "view", "views")) " would serve all queries" }
                (views(instead))
            }
        }
    }
}

fn queries(queries: &[ServedQuery]) -> Markup {
    let is_counted = queries.iter().any(|query| query.asked.per_day.is_some());
    html! {
        div.rows tabindex="0" role="region" aria-label="Queries" {
            table {
                thead { tr {
                    th scope="col" { "Query" } th scope="col" { "Filter" } th scope="col" { "Sort" }
                    @if is_counted { th.number scope="col" { "Asked" } }
                    th scope="col" { "Served by" } th scope="col" { "How" }
                } }
                tbody {
                    @for query in queries {
                        @let WorkloadQuery { name, filter, order_by, per_day, .. } = &query.asked;
                        tr {
                            td { (name) }
                            td { @if filter.is_empty() { span.dim { "all" } } @else { code { (filter) } } }
                            td.sort { code { (order_by) } }
                            @if is_counted { td.number { @if let Some(asked) = per_day { (grouped(*asked)) } } }
                            td { (query.view) @if query.is_new { span.mark { "new" } } }
                            td { (query.how()) }
                        }
                    }
                }
            }
        }
    }
}

fn unservable(queries: &[Unservable]) -> Markup {
    html! {
        div.rows tabindex="0" role="region" aria-label="Queries that no view can serve" {
            table {
                thead { tr {
                    th scope="col" { "Filter" } th scope="col" { "Sort" } th.number scope="col" { "Asked" } th scope="col" { "Why" }
                } }
                tbody {
                    @for Unservable { asked, reason, .. } in queries {
                        tr {
                            td { code { (asked.filter) } }
                            td.sort { code { (asked.order_by) } }
                            td.number { @if let Some(number) = asked.per_day { (grouped(number)) } }
                            td { (reason) }
                        }
                    }
                }
            }
        }
    }
}

fn views(views: &[ProposedView]) -> Markup {
    html! {
        ul.collections {
            @for view in views {
                li {
                    h3 { (view.name) }
                    p.sort_order { (view.sort_order) span.dim { " · serves " (view.serves.join(", ")) } }
                    pre.declaration tabindex="0" { code { (view.declaration.trim_end()) } }
                }
            }
        }
    }
}

fn alternatives(design: &Design) -> Markup {
    html! {
        div.rows tabindex="0" role="region" aria-label="Alternatives" {
            table {
                thead { tr { th scope="col" { "Without" } th scope="col" { "Query" } th scope="col" { "Then" } } }
                tbody {
                    @for without in &design.alternatives {
                        @for query in &without.queries {
                            tr { td { (without.view) } td { (query.query) } td { (query.instead) } }
                        }
                    }
                }
            }
        }
    }
}

fn form(url: &PageUrl, text: &str) -> Markup {
    let height = (text.lines().count() + 1).clamp(MIN_LINES, MAX_LINES);
    let shown = if is_plain(text) { text } else { "" };
    html! {
        form.queries method="post" action=(url.action("design")) {
            h2 { label for="queries" { "Design for other queries" } }
            textarea #queries name=(QUERIES) rows=(height) spellcheck="false" autocapitalize="off"
                    placeholder="[[query]]\nfilter = 'status = ? AND created >= ?'\norder_by = \"-created\"" { (shown) }
            p.dim { "Write filters and sorts as in the HTTP API, with ? for any value." }
            p.ways { button.primary type="submit" { "Design" } }
        }
    }
}
