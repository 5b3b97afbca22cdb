//! Parameters of a request: a struct that is read from a URL or a JSON body, and written in both
//! forms.
//!
//! Each field of the struct is a parameter with its name. The following table shows the form of its
//! value in a URL and in a body:
//!
//! | type | in an address | in a body |
//! |---|---|---|
//! | text | unchanged | a string |
//! | `bool` | `true` or `false` | `true` or `false` |
//! | an integer | its digits | a number |
//! | `Vec` | the parameter is repeated | an array |
//! | `Vec` with [`comma_separated`] | values joined by commas | an array |
//! | text with [`json_text`] | JSON | the same JSON |
//!
//! An unknown parameter, or a repeated one that is not a list, causes an error that names it.
//!
//! ```
//! use recto_api::pages::PageRequest;
//! use recto_api::parameters::{Parameters, names_of, to_query};
//!
//! let query = "filter=carrier%20%3D%20%22UA%22&fields=day,dest&last=true";
//! let request: PageRequest = Parameters::of_query(query, names_of::<PageRequest>())?.read()?;
//! assert_eq!(request.filter, r#"carrier = "UA""#);
//! assert_eq!(request.fields, ["day", "dest"]);
//!
//! let body = r#"{"filter": "carrier = \"UA\"", "fields": ["day", "dest"], "last": true}"#;
//! let same: PageRequest = Parameters::of_json(body, names_of::<PageRequest>())?.read()?;
//! assert_eq!(same, request);
//! assert_eq!(to_query(&same), "filter=carrier%20%3D%20%22UA%22&last=true&fields=day%2Cdest");
//!
//! let error = Parameters::of_query("filtre=a", names_of::<PageRequest>()).unwrap_err();
//! assert_eq!(error.name.as_deref(), Some("filtre"));
//! # Ok::<(), recto_api::parameters::ParameterError>(())
//! ```

mod forms;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub use forms::{at_least_one, comma_separated, json_text, parsed, present, text_option, whole_number};
pub use read::names_of;
pub use write::{to_pairs, to_query};

use crate::text::percent_decoded;
use crate::words::{self, shortened};

/// Error in the parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParameterError {
    /// Name of the parameter. `None` if the error is about the whole request.
    pub name: Option<String>,
    /// Description of the fault, in one sentence.
    pub message: String,
    /// Advice on the most likely fix.
    pub hint: Option<String>,
}

impl ParameterError {
    /// Returns an error about the parameter `name`.
    pub fn new(name: &str, message: impl Into<String>) -> Self {
        Self {
            name: Some(name.to_owned()),
            message: message.into(),
            hint: None,
        }
    }

    /// Sets the hint, which describes the most likely fix.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn unknown(name: &str, known: &[&str]) -> Self {
        let hint = if known.is_empty() {
            "leave it out: there are no parameters".to_owned()
        } else {
            format!("the parameters are {}", known.join(", "))
        };
        Self::new(name, format!("there is no parameter {}", quoted(name))).with_hint(hint)
    }

    /// Converts serde's error message about the parameter `name` to words of the API, without Rust
    /// types.
    fn of_serde(name: &str, error: &str) -> Self {
        let (message, hint) = words::translated(error, name);
        Self {
            name: Some(name.to_owned()),
            message,
            hint,
        }
    }
}

fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// Parameters of a request by name, whose values are not yet converted to the types of a struct.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    given: Vec<(String, Given)>,
}

/// Value of one parameter, as text from a URL or JSON from a body.
#[derive(Debug, Clone)]
enum Given {
    /// All values of the parameter's name in a URL. A list parameter can have several.
    Texts(Vec<String>),
    /// Value of the parameter in a JSON body.
    Json(Box<RawValue>),
}

impl Parameters {
    /// Parses the part of a URL after `?`, which is form-encoded: percent-encoded, and `+` is a
    /// space.
    ///
    /// # Errors
    /// A name is not in `known`, or text is not percent-encoded UTF-8.
    pub fn of_query(query: &str, known: &[&str]) -> Result<Self, ParameterError> {
        let mut given: Vec<(String, Given)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let not_text =
                || ParameterError::new(&shortened(name), "a parameter is not percent-encoded UTF-8");
            let name = form_decoded(name).ok_or_else(not_text)?;
            let value = form_decoded(value).ok_or_else(not_text)?;
            if !known.contains(&name.as_str()) {
                return Err(ParameterError::unknown(&name, known));
            }
            match given.iter_mut().find(|(earlier, _)| *earlier == name) {
                Some((_, Given::Texts(texts))) => texts.push(value),
                _ => given.push((name, Given::Texts(vec![value]))),
            }
        }
        Ok(Self { given })
    }

    /// Parses a JSON body. Numbers keep their digits.
    ///
    /// # Errors
    /// The text is not a JSON object, or a name is not in `known`.
    pub fn of_json(text: &str, known: &[&str]) -> Result<Self, ParameterError> {
        let members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|_| ParameterError {
                name: None,
                message: "the body is a JSON object of parameters".to_owned(),
                hint: Some(format!("the parameters are {}", known.join(", "))),
            })?;
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(ParameterError::unknown(name, known));
        }
        let given = members
            .into_iter()
            .map(|(name, value)| (name, Given::Json(value)));
        Ok(Self {
            given: given.collect(),
        })
    }

    /// Reads the parameters that are fields of `T`. Ignores other parameters, which may be fields
    /// of another struct.
    ///
    /// # Errors
    /// A value does not have the type of its field, or a parameter is repeated although its field is not a list.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ParameterError> {
        read::read(&self.given)
    }
}

fn form_decoded(text: &str) -> Option<String> {
    if text.contains('+') {
        percent_decoded(&text.replace('+', " "))
    } else {
        percent_decoded(text)
    }
}
