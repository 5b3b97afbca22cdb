//! Options for CSV files.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// Options for a CSV file. An NDJSON file takes none of these options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// Cells that stand for null, each as the file writes it, with its quotes. No text: the cell that is empty and has
    /// no quotes.
    pub null: Vec<String>,
    /// Character between two cells; `None`: a comma.
    pub delimiter: Option<Delimiter>,
    /// Character before a character that has no meaning of its own, such as the backslash in files of cqlsh; `None`:
    /// quotes are doubled.
    pub escape: Option<Escape>,
    /// Columns that fill a field of another name.
    pub map: Vec<ColumnMapping>,
    /// Form of blobs; `None`: base64, without cells that look like hex.
    pub blobs: Option<BlobFormat>,
    /// Pattern of dates and times, such as `%Y/%m/%d`; `None`: ISO 8601.
    pub time_format: Option<String>,
    /// Time zone of timestamps without an offset, such as `UTC`, `+02:00` or `Europe/Berlin`.
    pub time_zone: Option<String>,
}

impl CsvOptions {
    /// Names of the HTTP parameters of these options.
    pub const PARAMETERS: [&str; 7] = [
        "null",
        "delimiter",
        "escape",
        "map",
        "blobs",
        "time_format",
        "time_zone",
    ];

    /// Names of the parameters that may be given several times.
    pub const REPEATED: [&str; 2] = ["null", "map"];

    /// Returns the options that are set, each as the name and value of its HTTP parameter.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let null = self.null.iter().map(|text| ("null", text.clone()));
        let delimiter = self
            .delimiter
            .map(|delimiter| ("delimiter", delimiter.to_string()));
        let escape = self.escape.map(|escape| ("escape", escape.to_string()));
        let map = self.map.iter().map(|mapping| ("map", mapping.to_string()));
        let blobs = self.blobs.map(|blobs| ("blobs", blobs.as_str().to_owned()));
        let time_format = self.time_format.clone().map(|format| ("time_format", format));
        let time_zone = self.time_zone.clone().map(|zone| ("time_zone", zone));
        null.chain(delimiter)
            .chain(escape)
            .chain(map)
            .chain(blobs)
            .chain(time_format)
            .chain(time_zone)
            .collect()
    }
}

/// Character between two cells of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    /// The separator of most CSV files.
    pub const COMMA: Self = Self(b',');

    /// Returns the byte that the file has between two cells.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.0
    }
}

impl FromStr for Delimiter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
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

/// Character of a CSV file that takes the meaning from the character after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escape(u8);

impl Escape {
    /// Returns the byte that the file has before such a character.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.0
    }
}

impl FromStr for Escape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
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

/// Whether a byte is a character that has no meaning in every CSV file.
fn is_free(byte: u8) -> bool {
    byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0)
}

/// A column of a file that fills a field of another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMapping {
    /// Name of the column in the file's header row.
    pub column: String,
    /// Name of the field. Empty text: the column is left out.
    pub field: String,
}

impl FromStr for ColumnMapping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Names of fields have no `=`; names of columns may have one.
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

/// Form of blobs in CSV cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobFormat {
    /// Base64, the standard alphabet, padded; or `\x` and hex digits.
    Base64,
    /// Hex digits, with `0x` or `\x` before them or without.
    Hex,
}

impl BlobFormat {
    /// All forms.
    pub const ALL: [Self; 2] = [Self::Base64, Self::Hex];

    /// Returns the name of the form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Hex => "hex",
        }
    }
}

impl FromStr for BlobFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.as_str() == text)
            .ok_or_else(|| invalid(format!("blobs are base64 or hex, not {text:?}")))
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
