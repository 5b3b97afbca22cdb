//! Errors of bodies in words of the API: the parser names types of Rust.

use crate::problem::Problem;

/// Turns an error of the parser into a problem with the value at `place`, such as `messages[0].delay_seconds`. An empty
/// place is the body.
pub(super) fn problem(error: &str, place: &str) -> Problem {
    let problem = |detail: String| match place {
        "" => Problem::invalid_body(detail),
        place => Problem::invalid_body(detail).with_field(place),
    };
    let named = if place.is_empty() { "the body" } else { place };
    if let Some(rest) = error.strip_prefix("missing field ") {
        return problem(format!("{} is missing in {named}", quoted(rest)));
    }
    let (what, expected) = error.split_once(", expected ").unwrap_or((error, ""));
    if let Some(name) = what.strip_prefix("unknown field ") {
        let unknown = problem(format!("there is no {} in {named}", quoted(name)));
        return match names(expected) {
            names if names.is_empty() => unknown,
            names => unknown.with_hint(format!("the members are {names}")),
        };
    }
    if let Some(given) = what.strip_prefix("unknown variant ") {
        let names = names(expected);
        return problem(format!("{named} is one of {names}, not {}", quoted(given)));
    }
    let given = what.strip_prefix("invalid type: ");
    let given = given.or_else(|| what.strip_prefix("invalid value: "));
    match given {
        Some(given) => problem(format!("{named} is {}, not {}", wanted(expected), found(given))),
        None => problem(error.to_owned()),
    }
}

/// Returns the text between backquotes, or the whole text without backquotes.
fn quoted(text: &str) -> &str {
    text.split('`').nth(1).unwrap_or(text)
}

/// Joins the names between backquotes by commas.
fn names(expected: &str) -> String {
    let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    names.join(", ")
}

/// Returns what the API calls a type that the parser expected.
fn wanted(expected: &str) -> String {
    let expected = expected.split(" at line ").next().unwrap_or_default();
    match expected {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
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

/// Returns what the API calls a value that the parser found.
fn found(given: &str) -> &str {
    match given {
        "sequence" => "an array",
        "map" => "an object",
        "unit value" => "null",
        given if given.contains('`') => quoted(given),
        given => given,
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
                "receipts is an array, not string \"a\"",
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
                "there is no a in a",
            ),
            (
                "unknown variant `x`, expected `queue` or `group`",
                "deduplication",
                "deduplication is one of queue, group, not x",
            ),
        ] {
            assert_eq!(problem(error, place).detail(), detail);
        }
        let unknown = problem("unknown field `a`, expected `b` or `c`", "");
        assert_eq!(unknown.hint(), Some("the members are b, c"));
    }
}
