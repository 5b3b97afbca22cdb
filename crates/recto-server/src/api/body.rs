//! Strict reading of JSON bodies. A body must have a JSON media type and be valid JSON. No object
//! in it may repeat a member, at any depth.

use std::cell::RefCell;
use std::fmt;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use recto_api::words;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};

use super::coding::Coding;
use crate::config::DEFAULT_BODY_BYTES;
use crate::problem::Problem;

const JSON: &str = "application/json";
/// Media type of merge patches (RFC 7396).
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Media types that a patch may have, as the value of the header `Accept-Patch`.
pub(super) const PATCHES: &str = "application/merge-patch+json, application/json";

/// Maximum size of a request's body in bytes. It applies to the compressed and the decompressed
/// body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) u64);

/// Body of a request that is valid JSON.
pub(crate) struct Body {
    /// Parsed body. Its numbers may be rounded, so values to store are read from `bytes`.
    pub(crate) json: Json,
    bytes: Bytes,
}

impl Body {
    /// Parses the text of the body as `T`, which may borrow parts of the text.
    pub(crate) fn text<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        serde_json::from_slice(&self.bytes).map_err(|error| Problem::invalid_body(error.to_string()))
    }

    /// Converts the body, which must be an object, to `T`. A whole number may have a decimal point,
    /// such as 2.0. An error names the wrong member of the body.
    pub(crate) fn value<T: DeserializeOwned>(mut self) -> Result<T, Problem> {
        // Reject an array, because serde would read its elements as the members of the struct.
        if !self.json.is_object() {
            return Err(Problem::invalid_body("the body must be a JSON object"));
        }
        drop_points(&mut self.json);
        #[cfg(not(feature = "full"))]
        let read = T::deserialize(self.json).map_err(|error| translated(&error.to_string(), ""));
        #[cfg(feature = "full")]
        let read = serde_path_to_error::deserialize(self.json).map_err(|error| {
            let is_inside = error.path().iter().next().is_some();
            let place = if is_inside {
                error.path().to_string()
            } else {
                String::new()
            };
            translated(&error.inner().to_string(), &place)
        });
        read
    }
}

/// Converts a parser's error to a problem. `place` is the path of the wrong value in the body.
fn translated(error: &str, place: &str) -> Problem {
    let (detail, hint) = words::translated(error, place);
    let mut problem = Problem::invalid_body(detail);
    if !place.is_empty() {
        problem = problem.with_field(place);
    }
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

/// Returns a whole number as digits, so 2.0 becomes `2`. Returns `None` if the number is not whole.
pub(super) fn whole(number: &Number) -> Option<String> {
    if !number.is_f64() {
        return Some(number.to_string());
    }
    let value = number.as_f64()?;
    (value.fract() == 0.0).then(|| format!("{value:.0}"))
}

/// Replaces whole numbers with a decimal point, such as 2.0, by integers. Must not be used for
/// values of records, which keep their exact text.
fn drop_points(json: &mut Json) {
    match json {
        Json::Number(number) if number.is_f64() => {
            let digits = whole(number).unwrap_or_default();
            let exact = digits.parse::<u64>().map(Number::from);
            let exact = exact.or_else(|_| digits.parse::<i64>().map(Number::from));
            if let Ok(exact) = exact {
                *number = exact;
            }
        }
        Json::Array(values) => values.iter_mut().for_each(drop_points),
        Json::Object(members) => members.values_mut().for_each(drop_points),
        _ => {}
    }
}

/// Reads the body of a request, which must be JSON.
pub(crate) async fn read(request: Request) -> Result<Body, Problem> {
    read_of(request, &[JSON]).await
}

/// Reads the body of a patch request: a merge patch or JSON.
pub(crate) async fn read_patch(request: Request) -> Result<Body, Problem> {
    let body = read_of(request, &[MERGE_PATCH, JSON]).await;
    body.map_err(|problem| problem.accepting_patches(PATCHES))
}

async fn read_of(request: Request, types: &[&str]) -> Result<Body, Problem> {
    check_type(request.headers(), types)?;
    let coding = Coding::of(request.headers())?;
    let limit = request.extensions().get::<BodyLimit>();
    let limit = limit.map_or(DEFAULT_BODY_BYTES, |limit| limit.0);
    let bytes = Bytes::from_request(request, &())
        .await
        .map_err(|rejection| Problem::unreadable_body(rejection.status(), &rejection.body_text()))?;
    let bytes = coding.undone(bytes, limit)?;
    let json = parse(&bytes)?;
    Ok(Body { json, bytes })
}

/// Rejects a body whose media type is not in `types`, or whose character set is not UTF-8.
fn check_type(headers: &HeaderMap, types: &[&str]) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = given.split(';').map(|part| part.trim().to_ascii_lowercase());
    let is_json = parts.next().is_some_and(|given| types.contains(&given.as_str()));
    let is_utf8 = |parameter: String| match parameter.strip_prefix("charset=") {
        Some(charset) => charset.trim_matches('"') == "utf-8",
        None => true,
    };
    if is_json && parts.all(is_utf8) {
        return Ok(());
    }
    Err(Problem::unsupported_media_type(given, types[0]))
}

/// Parses bytes as JSON without repeated members.
pub(crate) fn parse(bytes: &[u8]) -> Result<Json, Problem> {
    let twice = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = Strict { twice: &twice }
        .deserialize(&mut deserializer)
        .and_then(|json| deserializer.end().map(|()| json));
    parsed.map_err(|error| {
        let problem = Problem::invalid_body(error.to_string()).with_position(position(
            bytes,
            error.line(),
            error.column(),
        ));
        match twice.take() {
            Some(name) => problem.with_field(name),
            None => problem,
        }
    })
}

/// Converts the parser's line and column (from 1, in bytes) to a position in the body (from 1, in
/// characters).
fn position(bytes: &[u8], line: usize, column: usize) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    let end = (before + column).min(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).chars().count().max(1)
}

/// Deserializer of JSON that rejects objects with a repeated member.
struct Strict<'a> {
    /// Name of the first repeated member, if there is one.
    twice: &'a RefCell<Option<String>>,
}

impl Strict<'_> {
    fn again(&self) -> Self {
        Self { twice: self.twice }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self.again())? {
            array.push(element);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                let error = A::Error::custom(format!("{name:?} occurs twice"));
                self.twice.replace(Some(name));
                return Err(error);
            }
            let value = members.next_value_seed(self.again())?;
            object.insert(name, value);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn json_is_what_the_plain_parser_reads() {
        let text = r#"{"a":[1,-2,1.5,-0.0,true,null,"é\u0000"],"b":{"c":{}}}"#;
        let plain: Json = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap().to_string(), plain.to_string());
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_at_any_depth() {
        for (text, field) in [
            (r#"{"a":1,"a":1}"#, "a"),
            (r#"{"a":[{"b":1,"c":2,"b":null}]}"#, "b"),
            (r#"{"a":1,"\u0061":1}"#, "a"),
        ] {
            let problem = parse(text.as_bytes()).unwrap_err().to_json();
            assert_eq!(problem["field"], field, "{problem}");
        }
    }

    #[test]
    fn errors_say_where_in_characters() {
        let at = |text: &str| parse(text.as_bytes()).unwrap_err().to_json()["position"].clone();
        assert_eq!(at("{\"é\": x}"), 7);
        assert_eq!(at("{\n  \"a\": 1,\n}"), 13);
        assert_eq!(at(""), 1);
        assert_eq!(at("{} 1"), 4);
    }

    #[test]
    fn deep_and_broken_text_is_refused() {
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(parse(b"\xff").is_err());
        assert!(parse(b"\"\xff\"").is_err());
        assert!(parse(b"1e999").is_err());
        assert!(parse(b"NaN").is_err());
    }
}
