//! Reading of the parameters of a request as a struct, through serde.

use std::fmt;

use serde::de::value::{SeqDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::forms::{COMMA_SEPARATED, JSON_TEXT};
use super::{Given, ParameterError, quoted};

/// Reads the request struct `T` from parameters of a URL or a body. Ignores parameters that are not
/// fields of `T`.
pub(super) fn read<T: DeserializeOwned>(given: &[(String, Given)]) -> Result<T, ParameterError> {
    T::deserialize(Struct(given)).map_err(|error| match error.name {
        Some(name) => ParameterError::of_serde(&name, &error.message),
        None => ParameterError {
            message: error.message,
            ..ParameterError::default()
        },
    })
}

/// Returns the names of the fields of a request struct, as serde reads them.
pub fn names_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // Ignore the error: `Names` records the names of the fields and reads no field, so it always
    // fails.
    let _ = T::deserialize(Names(&mut names));
    names
}

/// Error of serde while a request is read, with the name of the parameter that caused it.
#[derive(Debug)]
struct ReadError {
    name: Option<String>,
    message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            name: None,
            message: message.to_string(),
        }
    }
}

/// Deserializer that records the names of a struct's fields, and then fails without reading a
/// value.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("parameters are the fields of a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Deserializer of a request struct from all parameters. Skips parameters that are not its fields.
struct Struct<'a>(&'a [(String, Given)]);

impl<'de> Deserializer<'de> for Struct<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ReadError> {
        Err(de::Error::custom("parameters are the fields of a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_map(Members {
            rest: self.0.iter(),
            fields,
            next: None,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Members<'a> {
    rest: std::slice::Iter<'a, (String, Given)>,
    fields: &'static [&'static str],
    next: Option<&'a (String, Given)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let fields = self.fields;
        self.next = self.rest.find(|(name, _)| fields.contains(&name.as_str()));
        let name = self.next.map(|(name, _)| name.as_str().into_deserializer());
        name.map(|name: de::value::StrDeserializer<'_, ReadError>| seed.deserialize(name))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let Some((name, given)) = self.next.take() else {
            return Err(de::Error::custom("a parameter has no name"));
        };
        let read = match given {
            Given::Texts(texts) => seed.deserialize(Texts(texts)),
            Given::Json(json) => seed
                .deserialize(&mut serde_json::Deserializer::from_str(json.get()))
                .map_err(|error| de::Error::custom(without_position(&error))),
        };
        read.map_err(|error| ReadError {
            name: Some(name.clone()),
            ..error
        })
    }
}

/// Returns the message of an error without its position. The position is relative to the value, so
/// it would not help the user.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}

/// Deserializer of one parameter from the values that a URL has for its name.
#[derive(Clone, Copy)]
struct Texts<'a>(&'a [String]);

impl Texts<'_> {
    fn one(&self) -> Result<&str, ReadError> {
        match self.0 {
            [one] => Ok(one),
            _ => Err(de::Error::custom(GIVEN_TWICE)),
        }
    }

    /// Parses an integer. An integer beyond 64 bits becomes the largest or the smallest 64-bit integer.
    fn whole(&self) -> Result<i64, ReadError> {
        let text = self.one()?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(not(text, "a whole number"));
        }
        let beyond = if text.starts_with('-') { i64::MIN } else { i64::MAX };
        Ok(text.parse().unwrap_or(beyond))
    }
}

/// Message of the error about a repeated parameter that is not a list. `{name}` stands for its
/// name.
const GIVEN_TWICE: &str = "{name} is given more than once";

fn not(text: &str, expected: &str) -> ReadError {
    de::Error::invalid_value(Unexpected::Other(&quoted(text)), &expected)
}

macro_rules! whole_numbers {
    ($($method:ident)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            visitor.visit_i64(self.whole()?)
        })+
    };
}

impl<'de> Deserializer<'de> for Texts<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.one()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.one()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(not(other, "true or false")),
        }
    }

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match name {
            COMMA_SEPARATED => {
                let text = self.one()?;
                let parts = text.split(',').filter(|_| !text.is_empty());
                let parts = parts.map(|part| part.trim().to_owned());
                visitor.visit_newtype_struct(SeqDeserializer::new(parts))
            }
            JSON_TEXT => visitor.visit_str(self.one()?),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_seq(SeqDeserializer::new(self.0.iter().cloned()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let name: StringDeserializer<ReadError> = self.one()?.to_owned().into_deserializer();
        visitor.visit_enum(name)
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
        ignored_any
    }
}
