//! `GET /collections/{collection}`: a page of records with its query, and links and forms to other
//! pages.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use recto::schema::{Collection, Field};
use recto::session::{Count, Explanation, KnownRowCount, PageReply, PageRequest};
use recto::{Error, ErrorKind, Session};
use serde_json::Value as Json;

use super::filter::{Chip, Operator, chips, condition, with};
use super::layout::{Failure, Layout, page};
use super::options::{FieldOptions, options};
use super::page_url::{PageUrl, Parameters, first, parameters};
use super::refused::{OtherCollections, Refused};
use super::{buckets, controls, heading, pin, plan, table, value};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;

/// Names of form fields. The first is the prefix of a field's value, followed by the field's name.
/// The other constants are for the operator, and for the value to jump to.
pub(super) const VALUE_PREFIX: &str = "is.";
pub(super) const OPERATOR_PREFIX: &str = "op.";
pub(super) const JUMP: &str = "jump";
pub(super) const JUMP_FIELD: &str = "jump_field";
/// Form field with the position to jump to, as a share of all rows in percent.
pub(super) const SHARE: &str = "share";
/// Form field that exists if the order is descending. A jump to a day then starts at the end of the
/// day.
pub(super) const JUMP_DESCENDS: &str = "jump_descends";

/// Rights of the token in a collection, in addition to the right to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct CollectionRights {
    pub(super) write: bool,
    pub(super) delete: bool,
    pub(super) export: bool,
}

impl CollectionRights {
    pub(super) fn of(access: &Access, collection: &Collection) -> Self {
        let (name, is_written) = (&collection.name, collection.attached.is_none());
        Self {
            write: is_written && access.allows(name, Right::Write),
            delete: is_written && access.allows(name, Right::Delete),
            export: access.allows(name, Right::Export),
        }
    }
}

/// Page of records as the console shows it: query, forms, rows and errors.
pub(super) struct Browse<'a> {
    pub(super) collection: &'a Collection,
    pub(super) url: &'a PageUrl,
    /// Conditions of the filter, each shown as a chip. `None`: the filter text cannot be split into
    /// conditions.
    pub(super) chips: Option<Vec<Chip>>,
    pub(super) options: Vec<FieldOptions>,
    pub(super) may: CollectionRights,
    /// Message about the user's last action, such as a saved record.
    pub(super) notice: Option<&'static str>,
    /// Rejected query, whose error the page shows. The query came from the page's address, or from
    /// a form on the page.
    pub(super) refused: Option<&'a Refused>,
    /// True if the page shows the rows of a query, even if there are none.
    pub(super) has_rows: bool,
    /// True if the page shows at least one row.
    pub(super) has_first_row: bool,
    /// Name of the view from which the page reads its rows; `None` if it reads several views or the
    /// query failed.
    pub(super) view: Option<String>,
    /// Text that the user typed into the jump form, if the jump was rejected.
    pub(super) jumped: Option<&'a str>,
}

/// Handles `GET /collections/{collection}`: shows a page of records.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = access.session(app.session(), &name, Right::Read)?;
    let schema = session.schema().await?;
    let Some(collection) = schema.collection(&name) else {
        return Err(Problem::no_collection(&name).into());
    };
    let parameters = parameters(query.unwrap_or_default().as_bytes());
    let url = PageUrl::parse(&name, &parameters)?;
    check_fields(collection, &url)?;
    let asking = Asking {
        session: &session,
        collection,
        may: CollectionRights::of(&access, collection),
        others: OtherCollections {
            schema: &schema,
            access: &access,
            session: app.session(),
        },
        parameters: &parameters,
    };
    let changed = changed(collection, &url, &parameters);
    let Some(was) = PageUrl::was(&name, &parameters) else {
        return Ok(match changed {
            Some(changed) => Redirect::to(&changed.href()).into_response(),
            None => asking.page(&url, None).await,
        });
    };
    let asked = changed.unwrap_or(url);
    // Redirect only to a query that has a plan. Otherwise show the error next to the user's input.
    // `explain` plans the query and reads no rows.
    match session.explain(&name, &asked.request(), false).await {
        Err(error) if error.missing_partition_fields().is_empty() => {
            let refused = Refused::new(asked, error, &*session, &asking.others).await;
            Ok(asking.page(&was, Some(&refused)).await)
        }
        _ => Ok(Redirect::to(&asked.href()).into_response()),
    }
}

/// Request for a page of records, with the data that every reply to it needs.
struct Asking<'a> {
    session: &'a Arc<dyn Session>,
    collection: &'a Collection,
    may: CollectionRights,
    others: OtherCollections<'a>,
    parameters: &'a Parameters,
}

impl Asking<'_> {
    /// Returns a page of records. If a query was rejected, shows its error above the records.
    async fn page(&self, url: &PageUrl, refused: Option<&Refused>) -> Response {
        let session = self.session;
        let alone;
        let mut browse = Browse {
            collection: self.collection,
            url,
            chips: chips(&url.filter),
            options: Vec::new(),
            may: self.may,
            notice: first(self.parameters, "done").and_then(notice),
            refused,
            has_rows: true,
            has_first_row: false,
            view: None,
            jumped: refused.and_then(|_| first(self.parameters, JUMP)),
        };
        let found = async {
            let explanation = session.explain(&url.collection, &url.request(), false).await?;
            let reply = self.reply(url, &explanation).await?;
            recto::Result::Ok((explanation, reply))
        };
        let found = found.await;
        // Request the choices for the first page: the conditions and sorts that a view can serve do
        // not depend on the page.
        let choices = session
            .choices(&url.collection, &url.first_page().request())
            .await
            .unwrap_or_default();
        browse.options = options(self.collection, &choices.fields);
        let error: Error = match found {
            Ok((explanation, reply)) => {
                browse.has_first_row = !reply.records.is_empty();
                browse.view = Some(explanation.view.clone()).filter(|_| explanation.intersected.is_empty());
                return browse.answer(&browse.rows(&explanation, &reply));
            }
            Err(error) => error,
        };
        if refused.is_none() {
            if !error.missing_partition_fields().is_empty() {
                return self.ask_partition(browse, &error).await;
            }
            alone = Refused::new(url.clone(), error, &**session, &self.others).await;
            browse.refused = Some(&alone);
        }
        browse.has_rows = false;
        browse.answer(&controls::query(&browse))
    }

    /// Reads a page. Also counts the rows of the query, if the store can do so without reading
    /// them.
    async fn reply(&self, url: &PageUrl, explanation: &Explanation) -> recto::Result<PageReply> {
        let request = url.request();
        let counting = PageRequest {
            count: explanation.row_count.map(|known| match known {
                KnownRowCount::Exact => Count::Exact,
                KnownRowCount::Estimate => Count::Estimate,
            }),
            ..request.clone()
        };
        match self.session.page(&url.collection, &counting).await {
            // Show the page without a count if a store of an earlier release cannot count its rows.
            Err(error) if counting.count.is_some() && error.kind() == ErrorKind::InvalidArgument => {
                self.session.page(&url.collection, &request).await
            }
            answered => answered,
        }
    }

    /// Returns a form that asks for the partition fields which the rejected query does not fix.
    async fn ask_partition(&self, mut browse: Browse<'_>, refusal: &Error) -> Response {
        browse.has_rows = false;
        let browse = &browse;
        let fields = refusal.missing_partition_fields().iter();
        let fields = fields.filter_map(|name| self.collection.field(name));
        let missing: Vec<&Field> = fields.map(|(_, field)| field).collect();
        let asked = pin::PartitionForm::new(browse, &missing, self.parameters);
        let served_by = match browse.url.filter.as_str() {
            "" => Vec::new(),
            _ => self.others.that_serve(browse.url).await,
        };
        let listed = pin::list(&**self.session, self.collection, &asked).await;
        let content = html! {
            @if !browse.url.filter.is_empty() { (controls::query(browse)) }
            (pin::render(browse, &asked, &listed, &served_by))
        };
        browse.answer(&content)
    }
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
        "saved" => Some("The record was saved."),
        _ => None,
    }
}

/// Returns the page to which a sent form leads; `None` if the request has no form fields.
fn changed(collection: &Collection, url: &PageUrl, parameters: &Parameters) -> Option<PageUrl> {
    if let Some(typed) = first(parameters, JUMP) {
        let field = first(parameters, JUMP_FIELD).and_then(|name| collection.field(name));
        let value = match first(parameters, JUMP_DESCENDS) {
            Some(_) => value::last_json,
            None => value::json,
        };
        let from = field
            .filter(|_| !typed.trim().is_empty())
            .map(|(_, field)| Json::from(vec![value(&field.ty, typed)]).to_string());
        return Some(PageUrl {
            from,
            ..url.first_page()
        });
    }
    if let Some(share) = first(parameters, SHARE) {
        let share = share.trim().trim_end_matches('%').trim_end();
        return Some(PageUrl {
            around: (!share.is_empty()).then(|| format!("{share}%")),
            ..url.first_page()
        });
    }
    // Keep the query: the user only searches for partitions, and has not chosen one.
    if first(parameters, pin::FIND).is_some() {
        return None;
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
        // Stop if the filter text cannot be split into conditions. The request with the filter then
        // reports the error.
        let Some(held) = chips(&next.filter) else {
            break;
        };
        let condition = condition(field, operator, typed);
        next.filter = with(&held, &field.name, operator, &condition);
        next.allow_filter_scan |= first(parameters, &format!("filter_scan.{}", field.name)).is_some();
    }
    is_form.then_some(next)
}

impl Browse<'_> {
    fn answer(&self, content: &Markup) -> Response {
        let status = self
            .refused
            .map_or(StatusCode::OK, |refused| refused.problem.status);
        let layout = Layout {
            title: &self.collection.name,
            trail: vec![(self.collection.name.clone(), None)],
            fills_window: true,
            has_rows: self.has_first_row,
        };
        let content = html! {
            (heading::render(self))
            @if let Some(refused) = self.refused { (refused.render(self.has_rows.then_some(self.url))) }
            @if let Some(notice) = self.notice { p.notice role="status" { (notice) } }
            (content)
        };
        page(status, &layout, &content)
    }

    fn rows(&self, explanation: &Explanation, reply: &PageReply) -> Markup {
        html! {
            (controls::query(self))
            (controls::pager(self, explanation, reply))
            @if reply.records.is_empty() {
                (self.no_rows(reply))
            } @else {
                (table::render(self, explanation, &reply.records))
            }
            (buckets::link(self.collection, self.url, explanation, reply))
            (plan::render(explanation, reply))
        }
    }

    fn no_rows(&self, reply: &PageReply) -> Markup {
        let filtered = !self.url.filter.is_empty();
        html! {
            section.empty {
                @if reply.stop.is_some() {
                    h2 { "No rows yet" }
                    p { "The page reached its limit before a row matched. Continue with the next page." }
                } @else if !reply.previous_page_token.is_empty() {
                    h2 { "No rows here" }
                    p { "No rows follow this position. "
                        a href=(self.url.last_page().href()) { "The last page" } }
                } @else if !reply.next_page_token.is_empty() {
                    h2 { "No rows here" }
                    p { "No rows precede this position. "
                        a href=(self.url.first_page().href()) { "The first page" } }
                } @else if filtered {
                    h2 { "No rows match" }
                    p { "No record matches the query. Remove a condition, or change its value." }
                } @else {
                    h2 { "No records yet" }
                    p { "Load a file with " code { "recto load " (self.collection.name) " FILE" } " or add a record here." }
                }
            }
        }
    }
}
