//! Query parameters: each known by name, and given at most once unless it is a list.

use std::str::FromStr;

use axum::http::Uri;

use recto::Error;
use recto::text::percent_decoded;

use crate::problem::Problem;

/// The query parameters of a request.
#[derive(Debug)]
pub(crate) struct Parameters {
    given: Vec<(String, String)>,
}

impl Parameters {
    /// The parameters of a request to a resource that takes those in `known`.
    ///
    /// Text is form-encoded: percent-encoded, and `+` is a space.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        Self::read_repeated(uri, known, &[])
    }

    /// As [`read`](Self::read), but those in `repeated` may be given several times.
    pub(crate) fn read_repeated(uri: &Uri, known: &[&str], repeated: &[&str]) -> Result<Self, Problem> {
        let mut given: Vec<(String, String)> = Vec::new();
        let pairs = uri.query().unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |text: &str| {
                if text.contains('+') {
                    percent_decoded(&text.replace('+', " "))
                } else {
                    percent_decoded(text)
                }
            };
            let not_text = || Problem::invalid_parameter(name, "a parameter is not percent-encoded UTF-8");
            let name = text(name).ok_or_else(not_text)?;
            let value = text(value).ok_or_else(not_text)?;
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            let is_repeated = repeated.contains(&name.as_str());
            if !is_repeated && given.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::invalid_parameter(
                    &name,
                    format!("{name} is given more than once"),
                ));
            }
            given.push((name, value));
        }
        Ok(Self { given })
    }

    /// Those of these names and texts, no name twice.
    pub(super) fn of_pairs(given: Vec<(String, String)>) -> Self {
        Self { given }
    }

    /// A parameter's text, if it is given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.given.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The texts of a parameter that may be given several times.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let given = self.given.iter().filter(move |(given, _)| given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, if it is given.
    pub(crate) fn parsed<T: FromStr<Err = Error>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.all_parsed(name).map(|values| values.into_iter().next())
    }

    /// The values of a parameter that may be given several times.
    pub(crate) fn all_parsed<T: FromStr<Err = Error>>(&self, name: &str) -> Result<Vec<T>, Problem> {
        let parse = |text: &str| {
            text.parse().map_err(|error: Error| {
                let problem = Problem::invalid_parameter(name, error.message());
                match error.hint() {
                    Some(hint) => problem.with_hint(hint),
                    None => problem,
                }
            })
        };
        self.texts(name).map(parse).collect()
    }

    /// A flag: `true` or `false`; false if it is not given.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Problem::invalid_parameter(
                name,
                format!("{name} is true or false, not {}", told(other)),
            )),
        }
    }

    /// Names separated by commas; none if it is not given or empty. A name that is there twice counts
    /// once.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        let mut names: Vec<String> = Vec::new();
        if !text.is_empty() {
            for one in text.split(',').map(str::trim) {
                if !names.iter().any(|earlier| earlier == one) {
                    names.push(one.to_owned());
                }
            }
        }
        names
    }

    /// A whole number. One with more digits than 64 bits hold is the largest (or smallest) of them.
    pub(crate) fn whole(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Problem::invalid_parameter(
                name,
                format!("{name} is a whole number, not {}", told(text)),
            ));
        }
        let beyond = if is_negative { i64::MIN } else { i64::MAX };
        Ok(Some(text.parse().unwrap_or(beyond)))
    }

    /// All but those named, form-encoded.
    pub(crate) fn encoded_without(&self, without: &[&str]) -> String {
        let mut text = String::new();
        for (name, value) in &self.given {
            if !without.contains(&name.as_str()) {
                append(&mut text, name, value);
            }
        }
        text
    }
}

/// Appends a parameter, form-encoded.
pub(crate) fn append(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() {
        text.push('&');
    }
    text.extend(percent_encoding::utf8_percent_encode(name, ENCODED));
    text.push('=');
    text.extend(percent_encoding::utf8_percent_encode(value, ENCODED));
}

/// What may stand in a query unencoded: RFC 3986's unreserved characters.
const ENCODED: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// How much of a value an error repeats.
const MAX_TOLD_CHARACTERS: usize = 60;

fn told(text: &str) -> String {
    let shown: String = text.chars().take(MAX_TOLD_CHARACTERS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{:?}", shown + more)
}

pub(super) fn unknown(name: &str, known: &[&str]) -> Problem {
    let hint = if known.is_empty() {
        "it takes none".to_owned()
    } else {
        format!("the parameters are {}", known.join(", "))
    };
    Problem::invalid_parameter(name, format!("there is no parameter {}", told(name))).with_hint(hint)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(query: &str) -> Result<Parameters, Problem> {
        Parameters::read(&format!("/x?{query}").parse().unwrap(), &["a", "b"])
    }

    #[test]
    fn values_are_form_encoded() {
        let parameters = read("a=x+y%2Bz%26&&b").unwrap();
        assert_eq!(parameters.text("a"), Some("x y+z&"));
        assert_eq!(parameters.text("b"), Some(""));
        let mut text = parameters.encoded_without(&["b"]);
        append(&mut text, "b", "ü");
        assert_eq!(text, "a=x%20y%2Bz%26&b=%C3%BC");
    }

    #[test]
    fn unknown_and_repeated_ones_are_refused() {
        for bad in ["c=1", "a=1&a=1", "A=1", "a%5B%5D=1", "a=%ff", "a=%4", "=1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_of_any_length_are_read() {
        assert_eq!(read("a=12").unwrap().whole("a").unwrap(), Some(12));
        assert_eq!(read("a=-0").unwrap().whole("a").unwrap(), Some(0));
        assert_eq!(
            read("a=99999999999999999999").unwrap().whole("a").unwrap(),
            Some(i64::MAX)
        );
        assert_eq!(
            read("a=-99999999999999999999").unwrap().whole("a").unwrap(),
            Some(i64::MIN)
        );
        for bad in ["a=", "a=1.0", "a=1e3", "a=+1", "a=%2B1", "a=0x1", "a=-", "a=٣"] {
            assert!(
                read(&bad.replace('٣', "%D9%A3")).unwrap().whole("a").is_err(),
                "{bad}"
            );
        }
    }
}
