//! Text form of Recto's own field types (`Display` and `FromStr`): as in record JSON, but without
//! the quotes.

use std::fmt;
use std::str::FromStr;

use super::{Ascii, Blob, CqlDuration, Date, FieldType, Time, TimeUuid, Timestamp};
use crate::json::{self, JsonError};

fn write<T: FieldType>(value: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value.to_value() {
        Ok(Some(value)) => f.pad(&json::to_text(&T::field_type(), &value)),
        Ok(None) | Err(_) => f.pad("(out of range)"),
    }
}

fn parse<T: FieldType>(text: &str) -> Result<T, JsonError> {
    let ty = T::field_type();
    let value = json::from_text(&ty, text)?;
    T::from_value(Some(value)).map_err(|error| JsonError {
        expected: ty.with_article(),
        found: error.to_string(),
    })
}

macro_rules! shown {
    ($($native:ident),*) => {$(
        impl fmt::Display for $native {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self, f)
            }
        }
    )*};
}

macro_rules! parsed {
    ($($native:ident),*) => {$(
        impl FromStr for $native {
            type Err = JsonError;

            fn from_str(text: &str) -> Result<Self, JsonError> {
                parse(text)
            }
        }
    )*};
}

shown!(Blob, CqlDuration, Date, Time, Timestamp);
parsed!(Ascii, Blob, CqlDuration, Date, Time, TimeUuid, Timestamp);
