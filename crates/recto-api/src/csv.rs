//! Options for reading CSV files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parameters::{ParameterError, parsed, present};

/// Options for a CSV file. An NDJSON file takes none of these options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CsvOptions {
    /// Cells that mean null, each as the file writes it, with its quotes; default, the empty cell without
    /// quotes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub null: Vec<String>,
    /// Character between two cells, or `tab`; default, a comma.
    #[serde(with = "parsed", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub delimiter: Option<Delimiter>,
    /// Escape character before quotes and other special characters, such as the backslash in files of cqlsh;
    /// default, none: quotes are doubled.
    #[serde(with = "parsed", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub escape: Option<Escape>,
    /// Columns that fill a field of another name, each as `column=field`. Without a field, the column is left out.
    #[serde(with = "parsed::each", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<String>", inner(regex(pattern = "^.*=.*$"))))]
    pub map: Vec<ColumnMapping>,
    /// Form of blobs, `base64` or `hex`; default, base64, and Recto rejects cells that look like hex.
    #[serde(with = "parsed", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String", extend("enum" = BlobFormat::ALL.map(BlobFormat::as_str))))]
    pub blobs: Option<BlobFormat>,
    /// Pattern of dates and times, such as `%Y/%m/%d`; default, ISO 8601.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub time_format: Option<String>,
    /// Time zone of timestamps without an offset, such as `UTC`, `+02:00` or `Europe/Berlin`.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub time_zone: Option<String>,
}

/// Character between two cells of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    /// Comma, the delimiter of most CSV files.
    pub const COMMA: Self = Self(b',');

    /// Returns the delimiter as an ASCII byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.0
    }
}

impl FromStr for Delimiter {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        match text.as_bytes() {
            _ if text == "\\t" || text == "tab" => Ok(Self(b'\t')),
            [byte] if is_free(*byte) => Ok(Self(*byte)),
            _ => Err(invalid(format!("{text:?} cannot separate cells"))
                .with_hint("name one ASCII character other than a quote, or tab")),
        }
    }
}

impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\t' => f.write_str("tab"),
            byte => write!(f, "{}", char::from(byte)),
        }
    }
}

/// Character that removes the special meaning of the next character in a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escape(u8);

impl Escape {
    /// Returns the escape character as a byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.0
    }
}

impl FromStr for Escape {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        match text.as_bytes() {
            [byte] if is_free(*byte) => Ok(Self(*byte)),
            _ => Err(invalid(format!("{text:?} cannot escape a character")).with_hint(
                "name one ASCII character other than a quote, such as \\; doubled quotes need no option",
            )),
        }
    }
}

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", char::from(self.0))
    }
}

/// Returns whether a byte can be a delimiter or an escape character: an ASCII character without
/// another meaning in CSV files.
fn is_free(byte: u8) -> bool {
    byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0)
}

/// Mapping of a column of a CSV file to a field with another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMapping {
    /// Name of the column in the file's header row.
    pub column: String,
    /// Name of the field. If it is empty, the column is ignored.
    pub field: String,
}

impl FromStr for ColumnMapping {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        // Split at the last `=`, because the name of a column may contain `=`, but the name of a
        // field cannot.
        let (column, field) = text.rsplit_once('=').ok_or_else(|| {
            invalid(format!("{text:?} does not map a column to a field"))
                .with_hint("write it as column=field")
        })?;
        Ok(Self {
            column: column.to_owned(),
            field: field.to_owned(),
        })
    }
}

impl fmt::Display for ColumnMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.column, self.field)
    }
}

/// Encoding of blobs in the cells of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobFormat {
    /// Base64 with the standard alphabet and padding; or `\x` and hex digits.
    Base64,
    /// Hex digits, with or without a prefix `0x` or `\x`.
    Hex,
}

impl BlobFormat {
    /// All encodings of blobs, for the help of options.
    pub const ALL: [Self; 2] = [Self::Base64, Self::Hex];

    /// Returns the name of the encoding in options: `base64` or `hex`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Hex => "hex",
        }
    }
}

impl fmt::Display for BlobFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for BlobFormat {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, ParameterError> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.as_str() == text)
            .ok_or_else(|| invalid(format!("blobs are base64 or hex, not {text:?}")))
    }
}

fn invalid(message: String) -> ParameterError {
    ParameterError {
        message,
        ..ParameterError::default()
    }
}
