//! Names, literals and how strings are written.

use std::fmt;

use super::Span;

/// A field's name as it stands in a text. Two are equal if they are the same word, wherever they
/// stand.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name, `[a-z][a-z0-9_]*`.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

impl Name {
    /// The name `text` at `span`.
    pub fn new(text: impl Into<String>, span: Span) -> Self {
        Self {
            text: text.into(),
            span,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A literal as it stands in a text. Two are equal if they are written with the same value,
/// wherever they stand; what a value means is known only with its field's type.
#[derive(Debug, Clone)]
pub struct Literal {
    /// What is written.
    pub value: LiteralValue,
    /// Where it stands, with its quotes if it is a string.
    pub span: Span,
}

impl Literal {
    /// The literal `value` at `span`.
    pub fn new(value: LiteralValue, span: Span) -> Self {
        Self { value, span }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Literal {}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// What a literal is before its field's type is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LiteralValue {
    /// A string, its escapes resolved.
    String(String),
    /// A number of JSON's grammar, as it is written. Its exponent can be any: who turns it into a
    /// value bounds it.
    Number(String),
    /// `true` or `false`.
    Boolean(bool),
}

impl fmt::Display for LiteralValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => f.write_str(&quote(value)),
            Self::Number(value) => f.write_str(value),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

/// `value` as a string literal of filter text, which is also a JSON string: in double quotes, with
/// escapes for quotes, backslashes and control characters.
pub fn quote(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // The others of C0 (JSON demands it) and those of C1, which terminals act upon; all of
            // them are below U+00A0.
            control if control.is_control() => {
                let digit = |shift: u32| char::from_digit(u32::from(control) >> shift & 0xf, 16);
                out.push_str("\\u00");
                out.extend([digit(4), digit(0)].into_iter().flatten());
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

/// Whether `text` is a number of JSON's grammar (RFC 8259, section 6).
pub(super) fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let length = digits(exponent);
        return length > 0 && length == exponent.len();
    }
    rest.is_empty()
}

/// Whether `text` is a field's name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
