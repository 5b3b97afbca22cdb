//! Serialization of request fields that are not plain text, numbers or flags. Fields name the
//! modules in `#[serde(with = "…")]`, and the functions in `#[serde(deserialize_with = "…")]`.

use std::fmt;
use std::num::NonZeroU32;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// Newtype name that marks a list of names for serde. A serializer for URLs then joins the names by
/// commas; one for JSON writes an array.
pub(super) const COMMA_SEPARATED: &str = "recto::CommaSeparated";
/// Newtype name that marks JSON text for serde. A serializer for URLs then writes the JSON itself.
pub(super) const JSON_TEXT: &str = "recto::JsonText";

/// Serialization of a list of names: joined by commas in a URL, an array in a body. A repeated name
/// counts once.
pub mod comma_separated {
    use super::{COMMA_SEPARATED, Deserialize, Deserializer, Serializer, Visitor, de, fmt};

    /// Writes a list of names.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(COMMA_SEPARATED, names)
    }

    /// Reads a list of names.
    ///
    /// # Errors
    /// The value is not a list of names, or a name is empty or contains a comma.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_newtype_struct(COMMA_SEPARATED, Names)
    }

    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Vec<String>, D::Error> {
            let given = Vec::<String>::deserialize(inner)?;
            let mut names: Vec<String> = Vec::with_capacity(given.len());
            for name in given {
                if name.is_empty() || name.contains(',') {
                    return Err(de::Error::custom(
                        "{name} holds a name that is empty or has a comma",
                    ));
                }
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Ok(names)
        }
    }
}

/// Serialization of a JSON array: its text in a URL, the array itself in a body. The field stores
/// the text, so that numbers keep their digits.
pub mod json_text {
    use serde_json::value::RawValue;

    use super::{Deserialize, Deserializer, JSON_TEXT, Serialize, Serializer, Visitor, de, fmt};

    /// Writes the stored text as JSON.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(text) = text else {
            return serializer.serialize_none();
        };
        match serde_json::from_str::<&RawValue>(text) {
            Ok(json) if text.trim_start().starts_with('[') => {
                serializer.serialize_newtype_struct(JSON_TEXT, json)
            }
            // Keep text that is not a JSON array as it is, so that the server rejects it with its
            // own message.
            _ => text.serialize(serializer),
        }
    }

    /// Reads JSON as text. Text from a URL is not checked here.
    ///
    /// # Errors
    /// The value in a body is not an array.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_newtype_struct(JSON_TEXT, Text).map(Some)
    }

    struct Text;

    impl<'de> Visitor<'de> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<String, D::Error> {
            let json = Box::<RawValue>::deserialize(inner)?;
            if json.get().starts_with('[') {
                Ok(json.get().to_owned())
            } else {
                Err(de::Error::custom("{name} is an array of values in a body"))
            }
        }
    }
}

/// Reads an optional integer. JSON may write it with a decimal point: 2.0 is 2. A number beyond 64 bits becomes the
/// largest or the smallest 64-bit integer.
///
/// # Errors
/// The value is not an integer.
pub fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    deserializer.deserialize_i64(Whole).map(Some)
}

struct Whole;

impl Visitor<'_> for Whole {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<i64, E> {
        Ok(i64::try_from(number).unwrap_or(i64::MAX))
    }

    #[allow(clippy::cast_possible_truncation)] // numbers beyond 64 bits become the largest or the smallest
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<i64, E> {
        if number.fract() == 0.0 {
            Ok(number as i64)
        } else {
            Err(E::invalid_value(de::Unexpected::Float(number), &self))
        }
    }
}

/// Reads an optional value. A null is accepted only if the value's own type accepts null.
///
/// # Errors
/// The value does not have this type.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads an optional number, which must be at least 1.
///
/// # Errors
/// The value is not an integer, or it is 0.
pub fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    NonZeroU32::deserialize(deserializer).map(|number| Some(number.get()))
}

/// Reads optional text. Empty text becomes `None`.
///
/// # Errors
/// The value is not text.
pub fn text_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Serialization of a value as text, by its `FromStr` and `Display`.
pub mod parsed {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::{Deserialize, Deserializer, Serializer, de};
    use crate::parameters::ParameterError;
    use crate::words;

    /// Writes an optional value.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a value from its text.
    ///
    /// # Errors
    /// The text is not valid for the type.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err = ParameterError>,
        D: Deserializer<'de>,
    {
        parse(&String::deserialize(deserializer)?).map(Some)
    }

    /// Parses a value from its text. The message of the serde error has the parser's message and
    /// hint, because serde errors have no separate hint.
    pub(super) fn parse<T: FromStr<Err = ParameterError>, E: de::Error>(text: &str) -> Result<T, E> {
        text.parse().map_err(|error| E::custom(words::with_hint(&error)))
    }

    /// Serialization of several values as text. In a URL, the parameter is repeated for each value.
    pub mod each {
        use std::fmt::Display;
        use std::str::FromStr;

        use serde::ser::SerializeSeq;

        use super::super::{Deserialize, Deserializer, Serializer};
        use crate::parameters::ParameterError;

        /// Writes several values as text.
        ///
        /// # Errors
        /// The errors of the serializer.
        pub fn serialize<T: Display, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
            let mut written = serializer.serialize_seq(Some(values.len()))?;
            for value in values {
                written.serialize_element(&value.to_string())?;
            }
            written.end()
        }

        /// Reads several values from text.
        ///
        /// # Errors
        /// A text is not valid for the type.
        pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
        where
            T: FromStr<Err = ParameterError>,
            D: Deserializer<'de>,
        {
            let texts = Vec::<String>::deserialize(deserializer)?;
            texts.iter().map(|text| super::parse(text)).collect()
        }
    }
}
