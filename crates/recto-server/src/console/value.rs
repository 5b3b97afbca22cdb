//! Conversion of values to text for display, forms and filters.

use maud::{Markup, html};
use recto::Type;
use recto::filter_text::LiteralValue;
use recto::session::json_of_text;
use serde_json::{Number, Value as Json};

use super::text::cut;

/// Maximum number of characters of a value in a table cell. The page of the record shows more.
const MAX_CELL_CHARACTERS: usize = 120;
/// Maximum number of characters of a value in the tooltip of a cell.
const MAX_TITLE_CHARACTERS: usize = 1_000;
/// Maximum number of characters of a value on the page of a record.
const MAX_DETAIL_CHARACTERS: usize = 100_000;

/// Returns whether the type is an integer that the number field of every browser represents
/// exactly.
fn is_small_integer(ty: &Type) -> bool {
    matches!(ty, Type::TinyInt | Type::SmallInt | Type::Int)
}

/// Returns the text of a JSON value, as a form shows and reads it; `None` for null.
pub(super) fn text(value: Option<&Json>) -> Option<String> {
    match value {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    }
}

/// Returns the content of a table cell for a JSON value.
pub(super) fn cell(ty: &Type, value: Option<&Json>) -> Markup {
    let Some(text) = text(value) else {
        return html! { span.null { "null" } };
    };
    if text.is_empty() {
        return html! { span.null { "empty" } };
    }
    if ty.is_textual() && (text == "null" || text == "empty") {
        return html! { "\"" (text) "\"" };
    }
    let shown = short(ty, &text);
    let cut_text = cut(&shown, MAX_CELL_CHARACTERS);
    // Give longer texts a tooltip, because the style sheet cuts a text that is wider than its
    // column.
    let titled = text.chars().count() > 24 || cut_text != text;
    html! {
        @if titled { span title=(cut(&text, MAX_TITLE_CHARACTERS)) { (cut_text) } } @else { (cut_text) }
    }
}

/// Returns the short text of a timestamp, without zero milliseconds and without the time zone. The
/// column header shows the zone (UTC). Other values stay unchanged.
pub(super) fn short(ty: &Type, text: &str) -> String {
    if *ty != Type::Timestamp || !text.is_ascii() || text.len() < "2013-01-01T00:00:00Z".len() {
        return text.to_owned();
    }
    let bare = text.strip_suffix('Z').unwrap_or(text);
    let bare = bare.strip_suffix(".000").unwrap_or(bare);
    bare.replacen('T', " ", 1)
}

/// Returns a JSON value for the page of a record, which shows up to [`MAX_DETAIL_CHARACTERS`].
pub(super) fn full(value: Option<&Json>) -> Markup {
    match text(value) {
        None => html! { span.null { "null" } },
        Some(text) if text.is_empty() => html! { span.null { "empty" } },
        Some(text) => html! { span.value { (cut(&text, MAX_DETAIL_CHARACTERS)) } },
    }
}

/// Returns the name of a type for a column header.
pub(super) fn type_label(ty: &Type) -> String {
    match ty {
        Type::Timestamp => "timestamp, UTC".to_owned(),
        other => other.to_string(),
    }
}

/// Converts a typed text to a literal in the text of a filter.
pub(super) fn literal(ty: &Type, typed: &str) -> LiteralValue {
    let typed = normal(ty, typed);
    match (ty, typed.as_str()) {
        (Type::Boolean, "true" | "false") => LiteralValue::Boolean(typed == "true"),
        _ if ty.is_number() && is_json_number(&typed) => LiteralValue::Number(typed),
        _ => LiteralValue::String(typed),
    }
}

/// Converts a typed text to the JSON of a record. If the text is not a value of the type, returns
/// the text, and the engine reports the error.
pub(super) fn json(ty: &Type, typed: &str) -> Json {
    json_of_text(ty, &normal(ty, typed))
}

/// Converts a typed text to the JSON of a record, as the last value that the text can mean. A
/// timestamp without a time becomes the end of its day.
pub(super) fn last_json(ty: &Type, typed: &str) -> Json {
    json_of_text(ty, &completed(ty, typed, &LAST))
}

fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<Number>(text).is_ok()
}

/// Endings that complete a timestamp which lacks its time, its minutes, its seconds, or only its
/// time zone.
type Tails = [&'static str; 4];
const FIRST: Tails = ["T00:00:00Z", ":00:00Z", ":00Z", "Z"];
const LAST: Tails = ["T23:59:59.999Z", ":59:59.999Z", ":59.999Z", ".999Z"];

/// Formats a timestamp at the start or end of a day, hour or minute as briefly as a person types
/// it. Formats other values as [`short`] does.
pub(super) fn brief(ty: &Type, text: &str) -> String {
    let tails = FIRST.iter().zip(&LAST).take(3);
    let bare = tails
        .flat_map(|(first, last)| [first, last])
        .chain([&LAST[3]])
        .find_map(|tail| text.strip_suffix(tail));
    match bare {
        Some(bare) if *ty == Type::Timestamp && bare.is_ascii() => bare.replacen('T', " ", 1),
        _ => short(ty, text),
    }
}

/// Completes a typed timestamp that lacks its end, such as the time. Returns other typed texts
/// unchanged.
fn normal(ty: &Type, typed: &str) -> String {
    completed(ty, typed, &FIRST)
}

fn completed(ty: &Type, typed: &str, tails: &Tails) -> String {
    if ty.is_textual() {
        return typed.to_owned();
    }
    let typed = typed.trim();
    if *ty != Type::Timestamp || !typed.is_ascii() {
        return typed.to_owned();
    }
    let typed = typed.replacen(' ', "T", 1);
    let bare = typed.strip_suffix('Z').unwrap_or(&typed);
    let tail = match bare.len() {
        10 if bare.matches('-').count() == 2 => tails[0],
        13 if bare.as_bytes()[10] == b'T' => tails[1],
        16 if bare.as_bytes()[10] == b'T' => tails[2],
        19 if bare.as_bytes()[10] == b'T' => tails[3],
        23 if bare.as_bytes()[10] == b'T' => "Z",
        _ => return typed,
    };
    format!("{bare}{tail}")
}

/// Form control (input element) for a value of a type.
pub(super) struct Control<'a> {
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) ty: &'a Type,
    pub(super) value: &'a str,
    pub(super) required: bool,
    /// Label of the choice that means "no value", in a list of choices.
    pub(super) none: &'static str,
    pub(super) invalid: bool,
}

impl Control<'_> {
    pub(super) fn render(&self) -> Markup {
        let invalid = self.invalid.then_some("true");
        if *self.ty == Type::Boolean {
            return html! {
                select name=(self.name) id=(self.id)
                    aria-invalid=[invalid] {
                    @if !self.required { option value="" selected[self.value.is_empty()] { (self.none) } }
                    @for value in ["true", "false"] {
                        option value=(value) selected[self.value == value] { (value) }
                    }
                }
            };
        }
        if self.ty.is_nested() || self.value.contains(['\n', '\r']) || self.value.len() > MAX_CELL_CHARACTERS
        {
            return html! {
                textarea name=(self.name) id=(self.id) rows="4" spellcheck="false"
                    aria-invalid=[invalid]
                    placeholder=[placeholder(self.ty)] required[self.required] {
                    // Write a line break before the value, because browsers remove one at the start
                    // of a text area.
                    "\n" (self.value)
                }
            };
        }
        let (kind, mode) = if is_small_integer(self.ty) {
            ("number", Some("numeric"))
        } else if *self.ty == Type::Date && is_for_date_field(self.value) {
            ("date", None)
        } else if self.ty.is_number() {
            ("text", Some("decimal"))
        } else {
            ("text", None)
        };
        html! {
            input type=(kind) name=(self.name) id=(self.id) value=(self.value) inputmode=[mode]
                autocomplete="off" spellcheck="false" placeholder=[placeholder(self.ty)]
                aria-invalid=[invalid]
                required[self.required];
        }
    }
}

/// Returns whether a date control can show the value. Browsers accept the years 1 to 9999, and show
/// nothing for other years.
fn is_for_date_field(value: &str) -> bool {
    value.is_empty() || (value.len() == "2013-01-01".len() && !value.starts_with("0000"))
}

fn placeholder(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Timestamp => "2013-07-04 12:00",
        Type::Time => "12:00:00.000000000",
        Type::Uuid | Type::TimeUuid => "00000000-0000-0000-0000-000000000000",
        Type::Inet => "192.0.2.1",
        Type::Blob => "base64",
        Type::Duration => "P1DT2H",
        Type::List(_) | Type::Set(_) | Type::Tuple(_) | Type::Vector(..) => "[1, 2]",
        Type::Map(..) => r#"[["key", "value"]]"#,
        Type::Udt(_) => r#"{"field": "value"}"#,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_bare_where_filter_text_has_them_bare() {
        let literal = |ty: &Type, typed: &str| literal(ty, typed).to_string();
        assert_eq!(literal(&Type::Int, " 42 "), "42");
        assert_eq!(
            literal(&Type::BigInt, "9223372036854775807"),
            "9223372036854775807"
        );
        assert_eq!(literal(&Type::Double, "NaN"), "\"NaN\"");
        assert_eq!(literal(&Type::Int, "true"), "\"true\"");
        assert_eq!(literal(&Type::Int, "1 OR 2"), "\"1 OR 2\"");
        assert_eq!(literal(&Type::Boolean, "true"), "true");
        assert_eq!(literal(&Type::Text, "a\"b \\"), r#""a\"b \\""#);
        assert_eq!(literal(&Type::Text, " 1 "), "\" 1 \"");
    }

    #[test]
    fn a_timestamp_may_lack_what_goes_without_saying() {
        for typed in [
            "2013-07-04",
            "2013-07-04T00",
            "2013-07-04 00:00",
            "2013-07-04T00:00Z",
            "2013-07-04T00:00:00",
            "2013-07-04T00:00:00Z",
        ] {
            assert_eq!(
                literal(&Type::Timestamp, typed).to_string(),
                "\"2013-07-04T00:00:00Z\"",
                "{typed}"
            );
        }
        assert_eq!(literal(&Type::Timestamp, "soon").to_string(), "\"soon\"");
    }

    #[test]
    fn a_day_ends_with_its_last_millisecond() {
        for (typed, last) in [
            ("2013-07-04", "2013-07-04T23:59:59.999Z"),
            ("2013-07-04 12", "2013-07-04T12:59:59.999Z"),
            ("2013-07-04 12:30", "2013-07-04T12:30:59.999Z"),
            ("2013-07-04T12:30:15Z", "2013-07-04T12:30:15.999Z"),
            ("2013-07-04T12:30:15.250Z", "2013-07-04T12:30:15.250Z"),
            ("soon", "soon"),
        ] {
            let value = last_json(&Type::Timestamp, typed);
            assert_eq!(value, Json::from(last), "{typed}");
            let again = brief(&Type::Timestamp, last);
            assert_eq!(last_json(&Type::Timestamp, &again), value, "{again}");
        }
        assert_eq!(brief(&Type::Timestamp, "2013-07-04T23:59:59.999Z"), "2013-07-04");
        assert_eq!(brief(&Type::Timestamp, "2013-07-04T00:00:00Z"), "2013-07-04");
        assert_eq!(last_json(&Type::Text, "2013-07-04"), Json::from("2013-07-04"));
    }

    #[test]
    fn browsers_are_given_no_date_that_they_would_clear() {
        assert!(is_for_date_field("") && is_for_date_field("2013-01-01"));
        assert!(!is_for_date_field("0000-01-01") && !is_for_date_field("-0044-03-15"));
        assert!(!is_for_date_field("+12013-01-01"));
    }

    #[test]
    fn timestamps_are_shown_without_their_zeros() {
        assert_eq!(
            short(&Type::Timestamp, "2013-07-04T12:00:00.000Z"),
            "2013-07-04 12:00:00"
        );
        assert_eq!(
            short(&Type::Timestamp, "2013-07-04T12:00:00.250Z"),
            "2013-07-04 12:00:00.250"
        );
        assert_eq!(
            short(&Type::Text, "2013-07-04T12:00:00.000Z"),
            "2013-07-04T12:00:00.000Z"
        );
    }

    #[test]
    fn converts_form_input_to_record_json() {
        assert_eq!(json(&Type::Int, "7"), Json::from(7));
        assert_eq!(json(&Type::Int, "seven"), Json::from("seven"));
        assert_eq!(json(&Type::Boolean, "false"), Json::from(false));
        assert_eq!(json(&Type::Decimal, "1.10"), Json::from("1.10"));
        assert_eq!(
            json(&Type::List(Box::new(Type::Int)), "[1, 2]"),
            serde_json::json!([1, 2])
        );
        assert_eq!(json(&Type::Text, "[1]"), Json::from("[1]"));
    }
}
