//! `GET /collections/{collection}`: a page of records, and everything that leads to another.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use recto::schema::Collection;
use recto::session::{Explanation, PageReply};
use recto::{Error, ErrorKind, Session};
use serde_json::Value as Json;

use super::filter::{Chip, Operator, chips, condition, unpinned, with};
use super::layout::{Failure, Layout, page, problem_panel};
use super::options::{FieldOptions, probe};
use super::page_url::{PageUrl, Parameters, first, parameters};
use super::{controls, heading, pin, plan, table, value};
use crate::access::{Access, Operation};
use crate::app::App;
use crate::problem::Problem;

/// What forms name their fields by: a value for a field, its operator, and an order value to go to.
pub(super) const VALUE_PREFIX: &str = "is.";
pub(super) const OPERATOR_PREFIX: &str = "op.";
pub(super) const JUMP: &str = "jump";

/// What the access allows to do with a collection, beside reading it.
#[derive(Debug, Clone, Copy)]
pub(super) struct May {
    pub(super) write: bool,
    pub(super) delete: bool,
    pub(super) export: bool,
}

impl May {
    pub(super) fn of(access: &Access, collection: &str) -> Self {
        Self {
            write: access.allows(collection, Operation::Write),
            delete: access.allows(collection, Operation::Delete),
            export: access.allows(collection, Operation::Export),
        }
    }
}

/// What is looked at, and what is known about it.
pub(super) struct Browse<'a> {
    pub(super) collection: &'a Collection,
    pub(super) url: &'a PageUrl,
    /// `None`: the filter's text does not divide into conditions.
    pub(super) chips: Option<Vec<Chip>>,
    pub(super) options: Vec<FieldOptions>,
    pub(super) may: May,
    /// What was just done, in words.
    pub(super) notice: Option<&'static str>,
}

/// The page's handler.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = access.session(app.session(), &name, Operation::Read)?;
    let schema = session.schema().await?;
    let Some(collection) = schema.collection(&name) else {
        return Err(Problem::no_collection(&name).into());
    };
    let parameters = parameters(query.unwrap_or_default().as_bytes());
    let url = PageUrl::parse(&name, &parameters)?;
    check_fields(collection, &url)?;
    if let Some(changed) = changed(collection, &url, &parameters) {
        return Ok(Redirect::to(&changed.href()).into_response());
    }
    let mut browse = Browse {
        collection,
        url: &url,
        chips: chips(&url.filter),
        options: Vec::new(),
        may: May::of(&access, &name),
        notice: first(&parameters, "done").and_then(notice),
    };
    let found = async {
        let explanation = session.explain(&name, &url.request(), false).await?;
        let reply = session.page(&name, &url.request()).await?;
        recto::Result::Ok((explanation, reply))
    };
    let found = found.await;
    if let Some(held) = &browse.chips {
        browse.options = probe(&*session, collection, &url, held).await;
    }
    Ok(match found {
        Ok((explanation, reply)) => browse.answer(StatusCode::OK, &browse.rows(&explanation, &reply)),
        Err(error) => browse.without_rows(&session, error).await,
    })
}

fn check_fields(collection: &Collection, url: &PageUrl) -> Result<(), Problem> {
    match url.fields.iter().find(|name| collection.field(name).is_none()) {
        None => Ok(()),
        Some(unknown) => {
            let problem = Problem::invalid_parameter("fields", format!("there is no field {unknown}"));
            Err(match collection.nearest_field(unknown) {
                Some(nearest) => problem.with_hint(format!("did you mean {nearest}?")),
                None => problem,
            })
        }
    }
}

fn notice(done: &str) -> Option<&'static str> {
    match done {
        "deleted" => Some("The record was deleted."),
        "added" => Some("The record was added."),
        "saved" => Some("The record was saved."),
        _ => None,
    }
}

/// The page that a form on this page leads to; `None` if none was sent.
fn changed(collection: &Collection, url: &PageUrl, parameters: &Parameters) -> Option<PageUrl> {
    if let Some(typed) = first(parameters, JUMP) {
        let field = first(parameters, "jump_field").and_then(|name| collection.field(name));
        let from = field
            .filter(|_| !typed.trim().is_empty())
            .map(|(_, field)| Json::from(vec![value::json(&field.ty, typed)]).to_string());
        return Some(PageUrl {
            from,
            ..url.first_page()
        });
    }
    let mut is_form = false;
    let mut next = url.first_page();
    for (name, typed) in parameters {
        let Some(field) = name.strip_prefix(VALUE_PREFIX) else {
            continue;
        };
        is_form = true;
        let Some((_, field)) = collection.field(field).filter(|_| !typed.is_empty()) else {
            continue;
        };
        let operator = first(parameters, &format!("{OPERATOR_PREFIX}{}", field.name));
        let operator = operator.and_then(Operator::named).unwrap_or(Operator::Equal);
        // A text that does not divide is left to its own error.
        let Some(held) = chips(&next.filter) else {
            break;
        };
        let condition = condition(field, operator, typed);
        next.filter = with(&held, &field.name, operator, &condition);
        next.allow_residual |= first(parameters, &format!("residual.{}", field.name)).is_some();
    }
    is_form.then_some(next)
}

impl Browse<'_> {
    fn answer(&self, status: StatusCode, content: &Markup) -> Response {
        let layout = Layout {
            title: &self.collection.name,
            trail: vec![(self.collection.name.clone(), None)],
            fills_window: true,
        };
        let content = html! {
            (heading::render(self))
            @if let Some(notice) = self.notice { p.notice role="status" { (notice) } }
            (content)
        };
        page(status, &layout, &content)
    }

    fn rows(&self, explanation: &Explanation, reply: &PageReply) -> Markup {
        html! {
            (controls::query(self, None))
            (controls::pager(self, explanation, reply))
            @if reply.records.is_empty() {
                (self.no_rows(reply))
            } @else {
                (table::render(self, explanation, &reply.records))
            }
            (plan::render(explanation, reply))
        }
    }

    fn no_rows(&self, reply: &PageReply) -> Markup {
        let filtered = !self.url.filter.is_empty();
        html! {
            section.empty {
                @if reply.stop.is_some() {
                    h2 { "No rows yet" }
                    p { "The page's budget was used up before a row passed the filter. The next page goes on." }
                } @else if !reply.previous_page_token.is_empty() {
                    h2 { "No rows here" }
                    p { "Nothing stands after this place. "
                        a href=(self.url.last_page().href()) { "The last page" } }
                } @else if !reply.next_page_token.is_empty() {
                    h2 { "No rows here" }
                    p { "Nothing stands before this place. "
                        a href=(self.url.first_page().href()) { "The first page" } }
                } @else if filtered {
                    h2 { "No rows match" }
                    p { "The query was answered, and nothing matches it. Take a condition away, or change its value." }
                } @else {
                    h2 { "No records yet" }
                    p { "Load a file with " code { "recto load " (self.collection.name) " FILE" } " or add a record here." }
                }
            }
        }
    }

    /// The page of a query that was refused: the partition is asked for, or what is wrong is shown.
    async fn without_rows(&self, session: &Arc<dyn Session>, error: Error) -> Response {
        let missing = self
            .chips
            .as_deref()
            .map(|chips| unpinned(self.collection, chips))
            .unwrap_or_default();
        if error.kind() == ErrorKind::NoPlan && !missing.is_empty() && !is_missing_sort(self, &error) {
            let examples = pin::examples(&**session, self.collection).await;
            let content = html! {
                @if !self.url.filter.is_empty() { (controls::query(self, None)) }
                (pin::render(self, &missing, &examples))
            };
            return self.answer(StatusCode::OK, &content);
        }
        let place = controls::TextError::of(&error);
        let is_residual = error.kind() == ErrorKind::NoPlan && !self.url.allow_residual;
        let problem = Problem::from(error);
        let content = html! {
            (controls::query(self, place.as_ref()))
            (problem_panel(&problem))
            p.ways {
                @if is_residual && !self.url.filter.is_empty() {
                    a.button href=(PageUrl { allow_residual: true, ..self.url.first_page() }.href()) {
                        "Read rows and check them one by one"
                    }
                }
                @if !self.url.order_by.is_empty() {
                    a.button href=(self.url.with_order("").href()) { "The view's own order" }
                }
                @if *self.url != self.url.first_page() {
                    a.button href=(self.url.first_page().href()) { "The first page" }
                }
            }
        };
        self.answer(problem.status, &content)
    }
}

/// Whether the sort is what is refused, though a partition is missing too: then the sort is the news.
fn is_missing_sort(browse: &Browse<'_>, error: &Error) -> bool {
    !browse.url.order_by.is_empty() && !error.message().contains("is not pinned")
}
