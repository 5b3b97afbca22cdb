//! Reader of JSON, one nesting level at a time, from its text or from a value in memory.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// JSON value whose content has not been read yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Text(&'a RawValue),
    Value(&'a Json),
}

/// Content of a JSON value, one nesting level deep. The elements or members of the value are not
/// parsed yet.
#[derive(Debug)]
pub(super) enum Level<'a> {
    Null,
    Bool(bool),
    /// Text of a number, as it is written.
    Number(Cow<'a, str>),
    /// Shortest text of a number that `serde_json` already converted to a double. The original text
    /// may have had more digits.
    Double(String),
    Text(Cow<'a, str>),
    Array(Vec<Source<'a>>),
    Object(Vec<(Cow<'a, str>, Source<'a>)>),
    /// Description of a value that the grammar of JSON allows but Recto rejects, such as an object with a
    /// name twice.
    Broken(String),
}

impl<'a> Source<'a> {
    pub(super) fn is_null(self) -> bool {
        match self {
            Self::Text(text) => text.get() == "null",
            Self::Value(value) => value.is_null(),
        }
    }

    pub(super) fn level(self) -> Level<'a> {
        match self {
            Self::Text(text) => level_of_text(text.get()),
            Self::Value(value) => level_of_value(value),
        }
    }
}

fn level_of_value(value: &Json) -> Level<'_> {
    match value {
        Json::Null => Level::Null,
        Json::Bool(value) => Level::Bool(*value),
        Json::Number(number) => {
            let text = number.to_string();
            if text.contains(['.', 'e', 'E']) {
                Level::Double(text)
            } else {
                Level::Number(text.into())
            }
        }
        Json::String(text) => Level::Text(text.into()),
        Json::Array(elements) => Level::Array(elements.iter().map(Source::Value).collect()),
        Json::Object(members) => {
            let members = members.iter();
            Level::Object(
                members
                    .map(|(name, value)| (name.into(), Source::Value(value)))
                    .collect(),
            )
        }
    }
}

fn level_of_text(text: &str) -> Level<'_> {
    match text.as_bytes().first() {
        Some(b'n') => Level::Null,
        Some(b't') => Level::Bool(true),
        Some(b'f') => Level::Bool(false),
        Some(b'"') => text_level(text),
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(elements) => Level::Array(elements.into_iter().map(Source::Text).collect()),
            Err(error) => Level::Broken(super::syntax_error(&error)),
        },
        Some(b'{') => match Members::read(text) {
            Ok(members) => members.into_level(),
            Err(error) => Level::Broken(super::syntax_error(&error)),
        },
        _ => Level::Number(text.into()),
    }
}

fn text_level(text: &str) -> Level<'_> {
    let inner = &text[1..text.len() - 1];
    if !inner.contains('\\') {
        return Level::Text(inner.into());
    }
    match serde_json::from_str::<String>(text) {
        Ok(text) => Level::Text(text.into()),
        Err(_) => Level::Broken("a string with an unpaired surrogate".to_owned()),
    }
}

/// Members of a JSON object, in the order of its text.
#[derive(Debug, Default)]
pub struct Members<'a> {
    /// Names with resolved escapes, and values as they are written.
    pub members: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// Name that occurs twice in the object, if there is one.
    pub twice: Option<String>,
}

impl<'a> Members<'a> {
    /// Parses the members of the object in `text`.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn into_level(self) -> Level<'a> {
        if let Some(name) = self.twice {
            let name = super::JsonError::of_text("", &name).found;
            return Level::Broken(format!("an object with {name} twice"));
        }
        let members = self.members.into_iter();
        Level::Object(members.map(|(name, value)| (name, Source::Text(value))).collect())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut found = Members::default();
        let mut names = HashSet::new();
        while let Some(Name(name)) = map.next_key()? {
            if found.twice.is_none() && !names.insert(name.clone()) {
                found.twice = Some(name.clone().into_owned());
            }
            found.members.push((name, map.next_value()?));
        }
        Ok(found)
    }
}

/// Name of a member of a JSON object, borrowed from the text if it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(name.into()))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(name.to_owned().into()))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}
