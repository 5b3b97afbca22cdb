//! Names and literals in filter and sort text, and the syntax of strings.

use std::fmt;

use super::Span;

/// Name of a field in filter or sort text, with its position. Names with the same text are equal,
/// whatever their positions.
#[derive(Debug, Clone)]
pub struct Name {
    /// Word of the name, `[a-z][a-z0-9_]*`.
    pub text: String,
    /// Position of the name in the text.
    pub span: Span,
}

impl Name {
    /// Returns the name `text` at `span`.
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

/// Literal in filter text, with its position. Literals with the same written value are equal,
/// whatever their positions. The meaning of the value depends on the type of the field.
#[derive(Debug, Clone)]
pub struct Literal {
    /// Value as it is written.
    pub value: LiteralValue,
    /// Position in the text, including the quotes of a string.
    pub span: Span,
}

impl Literal {
    /// Returns the literal `value` at `span`.
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

/// Value of a literal in filter text, before the type of its field is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LiteralValue {
    /// String, with its escapes resolved.
    String(String),
    /// Number in JSON syntax, as it is written. The exponent is not limited here, but when the
    /// number is converted to a value of the field's type.
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

/// Returns `value` as a string literal of filter text, which is also a JSON string: in double quotes, with
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
            // JSON requires escapes for the other control characters below U+0020. Also escape the
            // control characters from U+007F to U+009F, because terminals interpret them. All are
            // below U+00A0, so two hexadecimal digits suffice.
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

/// Returns whether `text` is a number in JSON syntax (RFC 8259, section 6).
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

/// Returns whether `text` is a valid field name, `[a-z][a-z0-9_]*`.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
