//! Writing of a struct as the parameters of a URL.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Impossible, SerializeSeq, SerializeStruct, Serializer};

use super::forms::{COMMA_SEPARATED, JSON_TEXT};
use crate::text;

/// Returns the names and values of a request's parameters, in the order of the struct's fields.
pub fn to_pairs<T: Serialize>(request: &T) -> Vec<(&'static str, String)> {
    // Serialization fails only for a field of an unsupported type. The tests serialize every
    // request of this crate, so no request has such a field.
    request.serialize(Struct::default()).unwrap_or_default()
}

/// Returns the parameters of a request, form-encoded for a URL: `a=1&b=x%20y`.
pub fn to_query<T: Serialize>(request: &T) -> String {
    text::query(
        to_pairs(request)
            .iter()
            .map(|(name, value)| (*name, value.as_str())),
    )
}

#[derive(Debug)]
struct WriteError(String);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

impl ser::Error for WriteError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

type Pairs = Vec<(&'static str, String)>;
type Never<T> = Impossible<T, WriteError>;

/// Implements methods of a serializer that fail, for types that a URL parameter cannot have.
macro_rules! refuse {
    ($result:ty: $($method:ident($($argument:ty),*))+) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$result, WriteError> {
            Err(ser::Error::custom(stringify!($method)))
        })+
    };
}

/// Serializer that writes each field of a request struct as a URL parameter.
#[derive(Default)]
struct Struct {
    pairs: Pairs,
}

impl Serializer for Struct {
    type Ok = Pairs;
    type Error = WriteError;
    type SerializeSeq = Never<Pairs>;
    type SerializeTuple = Never<Pairs>;
    type SerializeTupleStruct = Never<Pairs>;
    type SerializeTupleVariant = Never<Pairs>;
    type SerializeMap = Never<Pairs>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Never<Pairs>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, WriteError> {
        Ok(self)
    }

    refuse! { Pairs:
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_f32(f32)
        serialize_f64(f64) serialize_char(char) serialize_str(&str) serialize_bytes(&[u8]) serialize_none()
        serialize_unit() serialize_unit_struct(&'static str)
        serialize_unit_variant(&'static str, u32, &'static str)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Pairs, WriteError> {
        Err(ser::Error::custom("an option"))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: &T,
    ) -> Result<Pairs, WriteError> {
        Err(ser::Error::custom("a newtype"))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Pairs, WriteError> {
        Err(ser::Error::custom("a variant"))
    }

    refuse! { Never<Pairs>:
        serialize_seq(Option<usize>) serialize_tuple(usize) serialize_tuple_struct(&'static str, usize)
        serialize_tuple_variant(&'static str, u32, &'static str, usize) serialize_map(Option<usize>)
        serialize_struct_variant(&'static str, u32, &'static str, usize)
    }
}

impl SerializeStruct for Struct {
    type Ok = Pairs;
    type Error = WriteError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        let pairs = &mut self.pairs;
        value.serialize(Parameter { name, pairs })
    }

    fn end(self) -> Result<Pairs, WriteError> {
        Ok(self.pairs)
    }
}

/// Serializer that adds the value of one URL parameter to `pairs`.
struct Parameter<'a> {
    name: &'static str,
    pairs: &'a mut Pairs,
}

impl Parameter<'_> {
    fn push(self, text: impl Into<String>) {
        self.pairs.push((self.name, text.into()));
    }
}

macro_rules! write_displayed {
    ($($method:ident($argument:ty))+) => {
        $(fn $method(self, value: $argument) -> Result<(), WriteError> {
            self.push(value.to_string());
            Ok(())
        })+
    };
}

impl<'a> Serializer for Parameter<'a> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Repeated<'a>;
    type SerializeTuple = Never<()>;
    type SerializeTupleStruct = Never<()>;
    type SerializeTupleVariant = Never<()>;
    type SerializeMap = Never<()>;
    type SerializeStruct = Never<()>;
    type SerializeStructVariant = Never<()>;

    write_displayed! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_str(&str)
    }

    fn serialize_none(self) -> Result<(), WriteError> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), WriteError> {
        self.push(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        match name {
            COMMA_SEPARATED => {
                let mut parts = Pairs::new();
                value.serialize(Parameter {
                    name: self.name,
                    pairs: &mut parts,
                })?;
                let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
                self.push(parts.join(","));
                Ok(())
            }
            JSON_TEXT => {
                let json = serde_json::to_string(value).map_err(ser::Error::custom)?;
                // Text that is not a JSON array was serialized as a JSON string. Push the text
                // itself, so that the server rejects it with its own message.
                self.push(serde_json::from_str::<String>(&json).unwrap_or(json));
                Ok(())
            }
            _ => value.serialize(self),
        }
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Repeated<'a>, WriteError> {
        Ok(Repeated {
            name: self.name,
            pairs: self.pairs,
        })
    }

    refuse! { ():
        serialize_f32(f32) serialize_f64(f64) serialize_char(char) serialize_bytes(&[u8]) serialize_unit()
        serialize_unit_struct(&'static str)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), WriteError> {
        Err(ser::Error::custom("a variant"))
    }

    refuse! { Never<()>:
        serialize_tuple(usize) serialize_tuple_struct(&'static str, usize)
        serialize_tuple_variant(&'static str, u32, &'static str, usize) serialize_map(Option<usize>)
        serialize_struct(&'static str, usize) serialize_struct_variant(&'static str, u32, &'static str, usize)
    }
}

/// Serializer of a list field. It adds one URL parameter for each element.
struct Repeated<'a> {
    name: &'static str,
    pairs: &'a mut Pairs,
}

impl SerializeSeq for Repeated<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        value.serialize(Parameter {
            name: self.name,
            pairs: self.pairs,
        })
    }

    fn end(self) -> Result<(), WriteError> {
        Ok(())
    }
}
