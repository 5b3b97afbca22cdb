//! Forms that add or change a record.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use recto::schema::{Field, WriteMode};
use recto::session::{Action, JsonRecord, RecordChange, Versioned};
use recto::{Error, ErrorKind, Type};
use serde_json::Value as Json;

use super::layout::{Failure, page, problem_panel};
use super::page_url::{Parameters, first, parameters};
use super::record::{layout, title};
use super::subject::Subject;
use super::table::{columns, key_of};
use super::text::{is_plain, lines};
use super::value::{self, Control, type_label};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Prefix of a form field with the value of a record's field. The next prefix is that of a check
/// box which makes an empty text null.
const VALUE_PREFIX: &str = "value.";
const NULL_PREFIX: &str = "null.";
/// Form field with the version of the record from which the form was filled, or its digest.
pub(super) const SEEN: &str = "seen";
/// Prefix of a form field with a digest of a field's original text. It shows whether the user
/// changed the field.
const WAS_PREFIX: &str = "was.";
/// Prefix of a form field with the user's choice after another user changed the record: the own
/// value or the stored value.
const TAKE_PREFIX: &str = "take.";
const MINE: &str = "mine";
const THEIRS: &str = "theirs";
/// Length of the digest of a field's original text, in bytes.
const WAS_BYTES: usize = 8;

/// Handles `GET /collections/{collection}/new`: shows a form that adds a record. A key in the
/// address fills the form from the record with the key.
pub(super) async fn ask_new(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let subject = Subject::of(&app, &access, &name, query, Right::Write).await?;
    let like = if subject.key.is_empty() {
        JsonRecord::new()
    } else {
        access.session(app.session(), &name, Right::Read)?;
        subject.record().await?
    };
    Ok(Form::new(&subject, &like, true).answer(None))
}

/// Handles the sent form that adds a record. If the token may read, rejects a key that already has
/// a record. Another user may still add a record before the write. So the message after the write
/// says only that the record was written.
pub(super) async fn new(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Failure> {
    let subject = Subject::of(&app, &access, &name, query, Right::Write).await?;
    let may_read = access.allows(&name, Right::Read);
    let sent = parameters(&body);
    let record = typed_record(&subject, &sent, &JsonRecord::new());
    let key = key_of(&subject.collection, &record);
    let missing = subject
        .collection
        .key
        .iter()
        .find(|name| !record.contains_key(*name));
    let problem = if let Some(missing) = missing {
        Some(
            Problem::new(
                ProblemType::InvalidRecord,
                format!("{missing} is part of the key and cannot be null"),
            )
            .with_field(missing.as_str()),
        )
    } else if may_read {
        match subject.session.get(&name, &key).await {
            Ok(None) => None,
            Ok(Some(_)) => Some(taken(&subject)),
            Err(error) => Some(error.into()),
        }
    } else {
        // Do not look up the key for a token that may not read: the reply would reveal which keys
        // exist.
        None
    };
    let form = Form::sent(&subject, &record, &sent, true);
    match problem {
        Some(problem) => Ok(form.answer(Some(&problem))),
        None => Ok(form.add(may_read).await),
    }
}

fn taken(subject: &Subject) -> Problem {
    let problem = Problem::new(
        ProblemType::AlreadyExists,
        format!(
            "a record with this key exists already in {}",
            subject.collection.name
        ),
    )
    .with_title("The key is in use");
    problem.with_hint("change a field of the key; nothing was written")
}

/// Handles `GET /collections/{collection}/edit`: shows a form filled from the record.
pub(super) async fn ask_edit(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let subject = editable(&app, &access, &name, query).await?;
    let held = subject.versioned().await?;
    Ok(Form::new(&subject, &held.record, false)
        .on(seen(&held))
        .answer(None))
}

/// Handles the sent form that changes a record. Writes nothing if the record changed after the form
/// was filled.
pub(super) async fn edit(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Failure> {
    let subject = editable(&app, &access, &name, query).await?;
    let sent = parameters(&body);
    let Some(held) = subject.found().await? else {
        return Ok(deleted_meanwhile(&subject, &sent));
    };
    let record = typed_record(&subject, &sent, &held.record);
    let form = Form::sent(&subject, &record, &sent, false);
    if first(&sent, SEEN) != Some(&seen(&held)) {
        return Ok(form.conflict(&held));
    }
    let put = RecordChange::new(&name, Action::put(record.clone())).if_version(held.version);
    match subject.session.change(put).await {
        Ok(_) => Ok(form.done("saved", true)),
        // Another user changed the record between the read and the write. Show the new record next
        // to the user's input.
        Err(error) if error.kind() == ErrorKind::Changed => Ok(match subject.found().await? {
            Some(held) => form.conflict(&held),
            None => deleted_meanwhile(&subject, &sent),
        }),
        Err(error) => Ok(form.refused(error)),
    }
}

async fn editable(app: &App, access: &Access, name: &str, query: Option<String>) -> Result<Subject, Problem> {
    access.session(app.session(), name, Right::Read)?;
    let subject = Subject::of(app, access, name, query, Right::Write).await?;
    if subject.collection.writes == WriteMode::Append {
        return Err(Problem::new(
            ProblemType::AppendOnly,
            format!("records of {name} can be added and deleted, but not edited (writes = \"append\")"),
        )
        .with_hint("add another record, or delete this one"));
    }
    Ok(subject)
}

/// Returns a form that adds the record again with the user's input, because another user deleted
/// the record.
fn deleted_meanwhile(subject: &Subject, sent: &Parameters) -> Response {
    let of_key = subject.collection.key.iter().zip(&subject.key);
    let of_key = of_key.filter_map(|(name, text)| {
        let (_, field) = subject.collection.field(name)?;
        Some((name.clone(), value::json(&field.ty, text)))
    });
    let record = typed_record(subject, sent, &of_key.collect());
    let mut form = Form::sent(subject, &record, sent, true);
    form.is_gone = true;
    let detail = "somebody deleted the record after you opened this form. Nothing was written; the form \
                  keeps your input";
    let problem = Problem::new(ProblemType::Conflict, detail).with_title("The record was deleted");
    form.answer(Some(
        &problem.with_hint("add the record with your input, or leave it deleted"),
    ))
}

/// Returns the identity of a record's content: its version, or a digest if the record has no
/// version.
pub(super) fn seen(held: &Versioned<JsonRecord>) -> String {
    match held.version {
        Some(version) => version.to_string(),
        None => digest(&held.record),
    }
}

fn digest(record: &JsonRecord) -> String {
    let text = Json::Object(record.clone()).to_string();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Returns the record that a sent form describes. A field that is not in the form, or that the user
/// did not change, keeps the stored value.
fn typed_record(subject: &Subject, sent: &Parameters, held: &JsonRecord) -> JsonRecord {
    let mut record = JsonRecord::new();
    for field in &subject.collection.fields {
        let name = &field.name;
        let kept = held.get(name);
        let takes_theirs = first(sent, &format!("{TAKE_PREFIX}{name}")) == Some(THEIRS);
        let value = match first(sent, &format!("{VALUE_PREFIX}{name}")) {
            _ if takes_theirs => kept.cloned(),
            None => kept.cloned(),
            Some(typed) => {
                let null = first(sent, &format!("{NULL_PREFIX}{name}")).is_some();
                let same = value::text(kept).is_some_and(|text| lines(&text) == lines(typed));
                match typed {
                    "" if null || !field.ty.is_textual() => None,
                    _ if same => kept.cloned(),
                    typed => Some(value::json(&field.ty, &lines(typed))),
                }
            }
        };
        if let Some(value) = value {
            record.insert(name.clone(), value);
        }
    }
    record
}

/// Returns a digest of a field's text, which shows later whether the user changed the text.
fn was(text: &str) -> String {
    let hash = blake3::hash(lines(text).as_bytes());
    blake3::Hash::to_hex(&hash)[..2 * WAS_BYTES].to_owned()
}

struct Form<'a> {
    subject: &'a Subject,
    record: &'a JsonRecord,
    /// Form fields that the user sent, if the form is shown again; `None` for the first time.
    sent: Option<&'a Parameters>,
    is_new: bool,
    /// True if the form adds a record again, after another user deleted it during an edit.
    is_gone: bool,
    seen: String,
    /// Record that another user stored after the form was filled, if there is one.
    theirs: Option<&'a JsonRecord>,
}

impl<'a> Form<'a> {
    fn new(subject: &'a Subject, record: &'a JsonRecord, is_new: bool) -> Self {
        Self {
            subject,
            record,
            sent: None,
            is_new,
            is_gone: false,
            seen: String::new(),
            theirs: None,
        }
    }

    /// Sets the identity (version or digest) of the record from which the form is filled.
    fn on(mut self, seen: String) -> Self {
        self.seen = seen;
        self
    }

    fn sent(subject: &'a Subject, record: &'a JsonRecord, sent: &'a Parameters, is_new: bool) -> Self {
        Self {
            subject,
            record,
            sent: Some(sent),
            is_new,
            is_gone: false,
            seen: first(sent, SEEN).unwrap_or_default().to_owned(),
            theirs: None,
        }
    }

    /// Adds the record of the form. If that fails, returns the form with the error.
    async fn add(self, may_read: bool) -> Response {
        let collection = &self.subject.collection;
        let record = self.record.clone();
        let ttl_seconds = None;
        let add = match collection.writes {
            WriteMode::Update => Action::Insert { record, ttl_seconds },
            _ => Action::Put { record, ttl_seconds },
        };
        let added = self
            .subject
            .session
            .change(RecordChange::new(&collection.name, add))
            .await;
        match added {
            Ok(_) => self.done("written", may_read),
            Err(error) if error.kind() == ErrorKind::Exists => self.answer(Some(&taken(self.subject))),
            Err(error) => self.refused(error),
        }
    }

    /// Redirects to the page of the record, or to an empty form if the token may not read. `done`
    /// selects the message that the page shows.
    fn done(&self, done: &str, may_read: bool) -> Response {
        let href = if may_read {
            self.subject.record_href(self.record)
        } else {
            self.subject.href("new", &[])
        };
        let sign = if href.contains('?') { '&' } else { '?' };
        Redirect::to(&format!("{href}{sign}done={done}")).into_response()
    }

    /// Returns the form again, with the error of the store.
    fn refused(&self, error: Error) -> Response {
        // Leave out the index of the record, because the request has only one.
        self.answer(Some(&Problem::of_record(error)))
    }

    /// Returns the form again, with the record that another user stored.
    fn conflict(mut self, held: &'a Versioned<JsonRecord>) -> Response {
        self.seen = seen(held);
        self.theirs = Some(&held.record);
        let detail = "somebody saved the record after you opened this form. Nothing was written; the form \
                      keeps your input";
        let problem = Problem::new(ProblemType::Conflict, detail).with_title("The record was changed");
        self.answer(Some(&problem.with_hint(
            "for each field that differs, choose the value to keep. Your value is preselected where you \
             entered one, otherwise the stored value",
        )))
    }

    fn answer(&self, problem: Option<&Problem>) -> Response {
        let subject = self.subject;
        let action = if self.is_new { "new" } else { "edit" };
        let back = if subject.key.is_empty() || self.is_gone {
            subject.back.href()
        } else {
            subject.href("record", &subject.key)
        };
        let at = problem.and_then(Problem::field);
        let content = html! {
            div.heading {
                h1 { @if self.is_new { "Add to " (subject.collection.name) } @else { "Edit " (title(subject)) } }
            }
            @if self.is_new && self.sent.is_none() && first(&subject.parameters, "done") == Some("written") {
                p.notice role="status" { "The record was written." }
            }
            @if let Some(problem) = problem { (problem_panel(problem)) }
            form.record method="post" action=(subject.href(action, if self.is_new { &[] } else { &subject.key })) hx-boost="false" {
                input type="hidden" name=(SEEN) value=(self.seen);
                @if self.is_new { p.dim { "Fields marked " span.mark { "key" } " are required." } }
                @for name in columns(&subject.collection) {
                    @if let Some((_, field)) = subject.collection.field(name) {
                        (self.field(field, at == Some(name)))
                    }
                }
                div.ways {
                    button.primary type="submit" {
                        @if self.is_new { "Add" } @else if self.theirs.is_some() { "Save chosen values" } @else { "Save" }
                    }
                    @if self.theirs.is_some() { a.button href=(subject.href("edit", &subject.key)) { "Discard my values" } }
                    a.button data-key="u" href=(back) { "Cancel" }
                }
            }
        };
        let status = problem.map_or(StatusCode::OK, |problem| problem.status);
        page(
            status,
            &layout(subject, if self.is_new { "Add" } else { "Edit" }),
            &content,
        )
    }

    fn field(&self, field: &Field, invalid: bool) -> Markup {
        let name = format!("{VALUE_PREFIX}{}", field.name);
        let id = format!("value-{}", field.name);
        let required = self.subject.collection.is_required(&field.name);
        let held = value::text(self.record.get(&field.name));
        let typed = self.sent.and_then(|sent| first(sent, &name));
        let text = typed
            .map(str::to_owned)
            .or_else(|| held.clone())
            .unwrap_or_default();
        let fixed = (required && !self.is_new) || !is_plain(&text);
        html! {
            div.field .invalid[invalid] {
                @if fixed {
                    span.label { (field.name) @if required { span.mark { "key" } } span.type { (type_label(&field.ty)) } }
                    div {
                        (value::full(self.record.get(&field.name)))
                        @if !required { span.dim { " This value cannot be shown in a form. It stays unchanged." } }
                    }
                } @else {
                    label for=(id) { (field.name) @if required { span.mark { "key" } } span.type { (type_label(&field.ty)) } }
                    (Control {
                        name: &name,
                        id: &id,
                        ty: &field.ty,
                        value: &text,
                        // Do not require input for text, because empty text is a valid value.
                        required: required && !field.ty.is_textual(),
                        none: "null",
                        invalid,
                    }.render())
                    (self.null_box(field, required, held.is_none()))
                    input type="hidden" name=(format!("{WAS_PREFIX}{}", field.name)) value=(self.was(field));
                    (self.choice(field, held.as_deref(), &text))
                }
            }
        }
    }

    /// Returns the digest of a field's original text, for a hidden form field. With it, the next
    /// request detects whether the user changed the field.
    fn was(&self, field: &Field) -> String {
        let name = &field.name;
        let filled = |record: &JsonRecord| was(&value::text(record.get(name)).unwrap_or_default());
        let sent = self
            .sent
            .and_then(|sent| first(sent, &format!("{WAS_PREFIX}{name}")));
        match (self.theirs, sent) {
            (Some(theirs), _) => filled(theirs),
            (None, Some(sent)) => sent.to_owned(),
            (None, None) => filled(self.record),
        }
    }

    /// Returns the choice between the user's value and the value that another user stored. Selects
    /// the stored value if the user did not change the field.
    fn choice(&self, field: &Field, mine: Option<&str>, typed: &str) -> Markup {
        let name = &field.name;
        let Some(theirs) = self.theirs.map(|theirs| theirs.get(name)) else {
            return Markup::default();
        };
        if value::text(theirs).map(|text| lines(&text)) == mine.map(lines) {
            return Markup::default();
        }
        let sent = self
            .sent
            .and_then(|sent| first(sent, &format!("{WAS_PREFIX}{name}")));
        let is_touched = sent.is_none_or(|sent| sent != was(typed));
        let take = format!("{TAKE_PREFIX}{name}");
        html! {
            div.both role="radiogroup" aria-label=(format!("Value of {name} to keep")) {
                label.mine { input type="radio" name=(take) value=(MINE) checked[is_touched]; "Mine, as entered above" }
                label.theirs {
                    input type="radio" name=(take) value=(THEIRS) checked[!is_touched];
                    span { span.dim { "Stored: " } (value::full(theirs)) }
                }
            }
        }
    }

    /// Returns a check box that sets a field to null. Only text fields have it, because an empty
    /// text field can also mean empty text.
    fn null_box(&self, field: &Field, required: bool, null: bool) -> Markup {
        if required || !matches!(field.ty, Type::Text | Type::Ascii) {
            return Markup::default();
        }
        let name = format!("{NULL_PREFIX}{}", field.name);
        let checked = match self.sent {
            Some(sent) => first(sent, &name).is_some(),
            None => null,
        };
        html! {
            label.null-box { input type="checkbox" name=(name) value="true" checked[checked]; "null if empty" }
        }
    }
}
