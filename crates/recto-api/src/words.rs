//! Translation of parser errors (of JSON and parameters) to the terms of the API. The parser's own
//! messages contain names of Rust types.

use crate::parameters::ParameterError;

/// Maximum number of characters of a value that an error repeats.
const MAX_SHOWN_CHARACTERS: usize = 60;
/// Placeholder in error messages of this crate, which [`translated`] replaces by the name of the
/// wrong value.
pub(crate) const NAME: &str = "{name}";
/// Character between a message and its hint, because an error of serde has only one text. No
/// message contains this control character.
const HINT: char = '\u{1f}';

/// Shortens a text for an error message, and appends `…` if the text was longer.
pub(crate) fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN_CHARACTERS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    shown + more
}

/// Joins the message and the hint of an error into one text, which [`translated`] splits.
pub(crate) fn with_hint(error: &ParameterError) -> String {
    match &error.hint {
        Some(hint) => format!("{}{HINT}{hint}", error.message),
        None => error.message.clone(),
    }
}

/// Translates an error text of the parser about the value at `place`, such as
/// `messages[0].delay_seconds`. An empty `place` means the whole body. Returns a message and an
/// optional hint.
pub fn translated(error: &str, place: &str) -> (String, Option<String>) {
    let named = if place.is_empty() { "the body" } else { place };
    if let Some(rest) = error.strip_prefix("missing field ") {
        return (format!("{} is missing in {named}", quoted(rest)), None);
    }
    let (problem, expected) = error.split_once(", expected ").unwrap_or((error, ""));
    if let Some(name) = problem.strip_prefix("unknown field ") {
        let name = quoted(name);
        let names = Some(names(expected)).filter(|names| !names.is_empty());
        let hint = names.map(|names| format!("the members are {names}"));
        // Remove the unknown member from the end of `place`, so that the message names the object
        // that has the member.
        let parent = place.strip_suffix(name).unwrap_or(place).trim_end_matches('.');
        let parent = if parent.is_empty() { "the body" } else { parent };
        return (format!("there is no {name} in {parent}"), hint);
    }
    if let Some(given) = problem.strip_prefix("unknown variant ") {
        let names = names(expected);
        return (
            format!("{named} is one of {names}, not {}", shortened(quoted(given))),
            None,
        );
    }
    let given = problem.strip_prefix("invalid type: ");
    let given = given.or_else(|| problem.strip_prefix("invalid value: "));
    if let Some(given) = given {
        let found = shortened(found(given));
        return (format!("{named} is {}, not {found}", wanted(expected)), None);
    }
    let (message, hint) = error.split_once(HINT).unwrap_or((error, ""));
    let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
    (message.replace(NAME, named), hint)
}

/// Returns the text between the first backquotes, or the whole text if it has none.
fn quoted(text: &str) -> &str {
    text.split('`').nth(1).unwrap_or(text)
}

/// Returns all names between backquotes in a parser's message, joined by commas.
fn names(expected: &str) -> String {
    let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    names.join(", ")
}

/// Returns the API's name for the type that the parser expected, such as `a whole number`.
fn wanted(expected: &str) -> String {
    let expected = expected.split(" at line ").next().unwrap_or_default();
    match expected {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "a nonzero u32" => format!("a whole number from 1 to {}", u32::MAX),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "string" => "text".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the API's name for the value that the parser found instead, such as `an array`.
fn found(given: &str) -> &str {
    match given {
        "sequence" => "an array",
        "map" => "an object",
        "unit value" => "null",
        given if given.contains('`') => quoted(given),
        given => given.strip_prefix("string ").unwrap_or(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_no_type_of_rust() {
        for (error, place, detail) in [
            (
                "invalid type: floating point `2.5`, expected u32",
                "delay_seconds",
                "delay_seconds is a whole number from 0 to 4294967295, not 2.5",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "max_messages",
                "max_messages is a whole number, 0 or more, not -1",
            ),
            (
                "invalid type: string \"a\", expected a sequence",
                "receipts",
                "receipts is an array, not \"a\"",
            ),
            (
                "invalid type: map, expected a string",
                "messages[0].body",
                "messages[0].body is text, not an object",
            ),
            ("missing field `receipts`", "", "receipts is missing in the body"),
            (
                "unknown field `a`, expected `b` or `c`",
                "a",
                "there is no a in the body",
            ),
            (
                "unknown field `a`, expected `b` or `c`",
                "messages[0].a",
                "there is no a in messages[0]",
            ),
            (
                "unknown variant `x`, expected `queue` or `group`",
                "deduplication",
                "deduplication is one of queue, group, not x",
            ),
        ] {
            assert_eq!(translated(error, place).0, detail);
        }
        let (_, hint) = translated("unknown field `a`, expected `b` or `c`", "");
        assert_eq!(hint.as_deref(), Some("the members are b, c"));
    }
}
