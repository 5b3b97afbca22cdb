//! Recursive-descent parser of filter text. [`filter`](super::filter) has the grammar.
//!
//! Each function parses one rule of the grammar. The parser recognizes syntax of AIP-160 that Recto
//! does not support, so that the error can name the syntax and recommend a replacement.

use super::Span;
use super::error::{TextError, TextErrorKind as Kind};
use super::filter::{MAX_CONDITIONS, MAX_VALUES, Operator, Term};
use super::literal::{Literal, LiteralValue, Name, is_number, quote};
use super::scanner::{Scanner, shorten};

type Parsed<T> = Result<T, TextError>;

const CONDITION_HINT: &str = "A condition is a field, an operator (=, <, <=, >, >=) and a value: `due < 5`.";
const STARTS_WITH: &str = "startsWith";
const OR_HINT: &str = "OR joins equalities of one field: `a = 1 OR a = 2`. Use two queries for anything \
    else.";
const NEGATION_HINT: &str = "Name the wanted values (`a = 1 OR a = 2`), or use two queries for the ranges on \
    either side.";

pub(super) fn parse(scanner: Scanner<'_>) -> Parsed<Vec<(Term, Span)>> {
    let mut parser = Parser { scanner, values: 0 };
    parser.filter().map_err(|error| {
        if error.hint.is_some() {
            error
        } else {
            error.with_hint(CONDITION_HINT)
        }
    })
}

struct Parser<'t> {
    scanner: Scanner<'t>,
    /// Number of literals read so far, to enforce [`MAX_VALUES`].
    values: usize,
}

impl Parser<'_> {
    fn filter(&mut self) -> Parsed<Vec<(Term, Span)>> {
        let mut terms = Vec::new();
        self.scanner.skip_white();
        if self.scanner.peek().is_none() {
            return Ok(terms);
        }
        loop {
            self.scanner.skip_white();
            let start = self.scanner.at();
            let term = self.term()?;
            let span = Span::new(start, start + self.scanner.since(start).trim_end().len());
            if terms.len() == MAX_CONDITIONS {
                let message = format!("more than {MAX_CONDITIONS} conditions");
                return Err(self
                    .scanner
                    .error(Kind::TooManyConditions, span, message)
                    .with_hint("Leave out conditions, or use several queries."));
            }
            terms.push((term, span));
            self.scanner.skip_white();
            if self.scanner.peek().is_none() {
                return Ok(terms);
            }
            if !self.keyword("AND") {
                return Err(self.not_joined("AND or the end"));
            }
        }
    }

    fn term(&mut self) -> Parsed<Term> {
        if self.scanner.peek() == Some('(') && !self.tuple_follows() {
            return self.group();
        }
        if self.scanner.peek_word() == STARTS_WITH {
            return self.starts_with();
        }
        self.or()
    }

    /// Parses `"(" ( or | startsWith ) ")"`, a group in parentheses.
    fn group(&mut self) -> Parsed<Term> {
        let open = self.here(1);
        self.scanner.eat('(');
        self.scanner.skip_white();
        if self.scanner.peek() == Some('(') && !self.tuple_follows() {
            return Err(self
                .scanner
                .error(Kind::Parentheses, self.here(1), "parentheses inside parentheses")
                .with_hint("Use one pair: parentheses contain only conditions joined by OR."));
        }
        let term = if self.scanner.peek_word() == STARTS_WITH {
            self.starts_with()?
        } else {
            self.or()?
        };
        self.scanner.skip_white();
        if self.scanner.eat(')') {
            return Ok(term);
        }
        if self.scanner.peek_word() == "AND" {
            return Err(self
                .scanner
                .error(Kind::Parentheses, self.here(3), "AND is inside parentheses")
                .with_hint("Write AND without parentheses: they contain only conditions joined by OR."));
        }
        if self.scanner.peek().is_none() {
            return Err(self
                .scanner
                .error(Kind::Parentheses, open, "this parenthesis is not closed")
                .with_hint("Write `)` after the last condition joined by OR."));
        }
        Err(self.not_joined("`)` or OR"))
    }

    /// Parses `cond { "OR" cond }`: one condition, or an OR of equalities of one field.
    fn or(&mut self) -> Parsed<Term> {
        let first = self.condition()?;
        self.scanner.skip_white();
        if self.scanner.peek_word() != "OR" {
            return Ok(first);
        }
        let Term::Compare {
            field,
            operator: Operator::Equal,
            literal,
        } = first
        else {
            return Err(self.or_error(self.here(2), "OR of conditions that are not equalities"));
        };
        let mut literals = vec![literal];
        while self.keyword("OR") {
            self.scanner.skip_white();
            literals.push(self.alternative(&field)?);
            self.scanner.skip_white();
        }
        Ok(Term::AnyOf { field, literals })
    }

    /// Parses a condition after OR, which must be an equality of `field`.
    fn alternative(&mut self, field: &Name) -> Parsed<Literal> {
        let start = self.scanner.at();
        if self.scanner.peek_word() == STARTS_WITH {
            return Err(self.or_error(
                self.here(STARTS_WITH.len()),
                "OR of conditions that are not equalities",
            ));
        }
        if self.scanner.peek() == Some('(') && !self.tuple_follows() {
            return Err(self
                .scanner
                .error(Kind::Parentheses, self.here(1), "parentheses after OR")
                .with_hint("Write the equalities in sequence: `a = 1 OR a = 2 OR a = 3`."));
        }
        let condition = self.condition()?;
        let span = Span::new(start, self.scanner.at());
        match condition {
            Term::Compare {
                field: other,
                operator: Operator::Equal,
                literal,
            } => {
                if other == *field {
                    return Ok(literal);
                }
                let message = format!(
                    "OR of different fields, {} and {}",
                    shorten(&field.text),
                    shorten(&other.text)
                );
                Err(self.or_error(other.span, message))
            }
            _ => Err(self.or_error(span, "OR of conditions that are not equalities")),
        }
    }

    fn or_error(&self, span: Span, message: impl Into<String>) -> TextError {
        self.scanner
            .error(Kind::UnsupportedOr, span, message)
            .with_hint(OR_HINT)
    }

    /// Parses one condition: a comparison of a field or of a tuple.
    fn condition(&mut self) -> Parsed<Term> {
        if self.scanner.peek() == Some('(') {
            return self.tuple();
        }
        let field = self.field()?;
        self.scanner.skip_white();
        let operator = self.operator(&field)?;
        let literal = self.literal()?;
        Ok(Term::Compare {
            field,
            operator,
            literal,
        })
    }

    /// Parses the field's name at the beginning of a condition.
    fn field(&mut self) -> Parsed<Name> {
        let word = self.scanner.peek_word();
        let lower = word.to_ascii_lowercase();
        match self.scanner.peek() {
            Some('-' | '!') => return Err(self.negation(1)),
            Some('*') => return Err(self.wildcard()),
            _ if word == "NOT" => return Err(self.negation(word.len())),
            _ if matches!(word, "AND" | "OR") => return Err(self.scanner.unexpected("a condition")),
            _ => {}
        }
        let start = self.scanner.at();
        self.scanner.go_to(start + word.len());
        self.scanner.skip_white();
        let after = self.scanner.peek();
        let next = self.scanner.peek_word();
        self.scanner.go_to(start);
        if lower == "not" && (after == Some('(') || !next.is_empty()) {
            return Err(self.negation(word.len()));
        }
        if !word.is_empty() && after == Some('(') {
            return Err(self.function(word, "the only function is startsWith(field, \"prefix\")"));
        }
        self.scanner.name("a field name")
    }

    /// Returns whether the next text is `"(" name ( "," | ")" )`, with which only a tuple begins.
    fn tuple_follows(&mut self) -> bool {
        let start = self.scanner.at();
        self.scanner.eat('(');
        self.scanner.skip_white();
        let word = self.scanner.peek_word();
        self.scanner.go_to(self.scanner.at() + word.len());
        self.scanner.skip_white();
        let follows = !word.is_empty() && matches!(self.scanner.peek(), Some(',' | ')'));
        self.scanner.go_to(start);
        follows
    }

    /// Parses a comparison of tuples, `"(" field { "," field } ")" op "(" literal { "," literal }
    /// ")"`.
    fn tuple(&mut self) -> Parsed<Term> {
        let mut fields: Vec<Name> = Vec::new();
        self.scanner.eat('(');
        loop {
            self.scanner.skip_white();
            let field = self.scanner.name("a field name")?;
            if fields.contains(&field) {
                let message = format!("a tuple has field {} twice", shorten(&field.text));
                return Err(self
                    .scanner
                    .error(Kind::DuplicateField, field.span, message)
                    .with_hint("Name each field once."));
            }
            fields.push(field);
            if self.list_ends()? {
                break;
            }
        }
        self.scanner.skip_white();
        let operator = self.operator(&fields[0])?;
        self.scanner.skip_white();
        let start = self.scanner.at();
        if !self.scanner.eat('(') {
            return Err(self
                .scanner
                .unexpected("`(`")
                .with_hint("Compare a tuple with a tuple: `(a, b) > (1, 2)`."));
        }
        let mut literals = Vec::new();
        loop {
            literals.push(self.literal()?);
            if self.list_ends()? {
                break;
            }
        }
        if literals.len() != fields.len() {
            let span = Span::new(start, self.scanner.at());
            let message = format!("{} values for {} fields", literals.len(), fields.len());
            return Err(self
                .scanner
                .error(Kind::TupleLength, span, message)
                .with_hint("Write one value for each field of the tuple."));
        }
        Ok(Term::Tuple {
            fields,
            operator,
            literals,
        })
    }

    /// Parses the next `,` or `)` in a list. Returns true for `)`, which ends the list.
    fn list_ends(&mut self) -> Parsed<bool> {
        self.scanner.skip_white();
        if self.scanner.eat(',') {
            return Ok(false);
        }
        if self.scanner.eat(')') {
            return Ok(true);
        }
        Err(self.scanner.unexpected("`,` or `)`"))
    }

    /// Parses `"startsWith" "(" field "," string ")"`.
    fn starts_with(&mut self) -> Parsed<Term> {
        const HINT: &str = "Write startsWith(field, \"prefix\").";
        self.scanner.go_to(self.scanner.at() + STARTS_WITH.len());
        let expect = |parser: &mut Self, wanted: char| {
            parser.scanner.skip_white();
            if parser.scanner.eat(wanted) {
                return Ok(());
            }
            let error = parser.scanner.unexpected(&format!("`{wanted}`"));
            Err(error.with_hint(HINT))
        };
        expect(self, '(')?;
        self.scanner.skip_white();
        let field = self.scanner.name("a field name")?;
        expect(self, ',')?;
        self.scanner.skip_white();
        let prefix = self.literal()?;
        if !matches!(prefix.value, LiteralValue::String(_)) {
            return Err(self
                .scanner
                .error(Kind::InvalidLiteral, prefix.span, "the prefix is not a string")
                .with_hint(HINT));
        }
        expect(self, ')')?;
        Ok(Term::StartsWith { field, prefix })
    }

    /// Parses the operator after `field`. The error names an operator of another language, and its
    /// replacement.
    fn operator(&mut self, field: &Name) -> Parsed<Operator> {
        let (operator, length) = match operator_at(self.scanner.rest()) {
            Ok(found) => found,
            Err(Some((found, hint))) => {
                let message = format!("operator {} is not supported", shorten(found));
                return Err(self
                    .scanner
                    .error(Kind::UnsupportedOperator, self.here(found.len()), message)
                    .with_hint(hint));
            }
            Err(None) => return Err(self.no_operator(field)),
        };
        self.scanner.go_to(self.scanner.at() + length);
        Ok(operator)
    }

    fn no_operator(&self, field: &Name) -> TextError {
        if self.scanner.peek() == Some('*') {
            return self.wildcard();
        }
        self.scanner
            .unexpected(&format!("an operator after {}", shorten(&field.text)))
            .with_hint(CONDITION_HINT)
    }

    /// Parses a literal (string, number or boolean), and white space before it.
    fn literal(&mut self) -> Parsed<Literal> {
        self.scanner.skip_white();
        let start = self.scanner.at();
        let value = match self.scanner.peek() {
            Some(quote @ ('"' | '\'')) => LiteralValue::String(self.string(quote)?),
            Some('*') => return Err(self.wildcard()),
            Some('(') => {
                return Err(self.scanner.unexpected("a value").with_hint(
                    "Write several values of one field as `a = 1 OR a = 2`, and tuples as `(a, b) > (1, 2)`.",
                ));
            }
            _ => self.bare()?,
        };
        let span = Span::new(start, self.scanner.at());
        if self.values == MAX_VALUES {
            let message = format!("more than {MAX_VALUES} values");
            return Err(self
                .scanner
                .error(Kind::TooManyValues, span, message)
                .with_hint("Use several queries."));
        }
        self.values += 1;
        Ok(Literal::new(value, span))
    }

    /// Parses a literal without quotes. Reads all characters that the user could have meant as one
    /// value, so that an error about `2024-05-01` or `10s` covers the whole value.
    fn bare(&mut self) -> Parsed<LiteralValue> {
        let start = self.scanner.at();
        let text = self.scanner.take_while(|character| {
            character.is_alphanumeric() || matches!(character, '_' | '.' | '+' | '-' | ':' | '/')
        });
        let span = Span::new(start, self.scanner.at());
        let next = self.scanner.peek();
        match text {
            _ if next == Some('*') => return Err(self.wildcard()),
            "true" => return Ok(LiteralValue::Boolean(true)),
            "false" => return Ok(LiteralValue::Boolean(false)),
            "" | "AND" | "OR" | "NOT" => {
                self.scanner.go_to(start);
                return Err(self.scanner.unexpected("a value"));
            }
            _ if is_number(text) => return Ok(LiteralValue::Number(text.to_owned())),
            _ => {}
        }
        self.scanner.skip_white();
        if self.scanner.peek() == Some('(') && text.starts_with(char::is_alphabetic) {
            self.scanner.go_to(start);
            return Err(self.function(text, "values cannot be computed"));
        }
        let message = format!("{} is not a value", shorten(text));
        Err(self
            .scanner
            .error(Kind::InvalidLiteral, span, message)
            .with_hint(literal_hint(text)))
    }

    /// Parses a string whose opening and closing quote is `quote`.
    fn string(&mut self, quote: char) -> Parsed<String> {
        let start = self.scanner.at();
        let mut out = String::new();
        self.scanner.eat(quote);
        loop {
            let at = self.scanner.at();
            match self.scanner.next() {
                None => {
                    let message = "this string has no closing quote";
                    return Err(self
                        .scanner
                        .error(Kind::UnterminatedString, Span::new(start, at), message)
                        .with_hint(format!(
                            "Write {quote} after it; write a {quote} inside it as \\{quote}."
                        )));
                }
                Some('\\') => out.push(self.escape(at, quote)?),
                Some(character) if character == quote => return Ok(out),
                Some(character) if character < ' ' => {
                    let span = Span::new(at, self.scanner.at());
                    let written = super::quote(&character.to_string());
                    return Err(self
                        .scanner
                        .error(Kind::ControlCharacter, span, "a control character in a string")
                        .with_hint(format!("Write it as {}.", written.trim_matches('"'))));
                }
                Some(character) => out.push(character),
            }
        }
    }

    /// Parses an escape in a string after its backslash, which is at `start`. Returns the character
    /// that the escape stands for.
    fn escape(&mut self, start: usize, quote: char) -> Parsed<char> {
        let plain = match self.scanner.next() {
            Some(character @ ('"' | '\\' | '/')) => character,
            Some('\'') if quote == '\'' => '\'',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode_escape(start),
            _ => {
                let span = Span::new(start, self.scanner.at());
                return Err(self
                    .scanner
                    .error(Kind::InvalidEscape, span, "a string has an unknown escape")
                    .with_hint(
                        "Use the escapes \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, and \\' in single \
                         quotes; write a backslash as \\\\.",
                    ));
            }
        };
        Ok(plain)
    }

    /// Parses the rest of `\uXXXX`, or of two such escapes that form a surrogate pair (RFC 8259,
    /// section 7). Returns the character.
    fn unicode_escape(&mut self, start: usize) -> Parsed<char> {
        let first = self.four_digits(start)?;
        let code = match first {
            0xd800..=0xdbff if self.scanner.rest().starts_with("\\u") => {
                let second_start = self.scanner.at();
                self.scanner.go_to(second_start + 2);
                let second = self.four_digits(second_start)?;
                if (0xdc00..=0xdfff).contains(&second) {
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| {
            let span = Span::new(start, self.scanner.at());
            self.scanner
                .error(Kind::InvalidEscape, span, "a string has half of a surrogate pair")
                .with_hint("Write characters above U+FFFF as two escapes, \\uD83D\\uDE00, or directly.")
        })
    }

    fn four_digits(&mut self, start: usize) -> Parsed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.scanner.peek().and_then(|digit| digit.to_digit(16)) else {
                let span = Span::new(start, self.scanner.at());
                return Err(self
                    .scanner
                    .error(Kind::InvalidEscape, span, "\\u needs four digits")
                    .with_hint("Write four hexadecimal digits: \\u00e9."));
            };
            self.scanner.next();
            code = code * 16 + digit;
        }
        Ok(code)
    }

    /// Skips the keyword `word` if it is the next word. Returns whether it was.
    fn keyword(&mut self, word: &str) -> bool {
        let follows = self.scanner.peek_word() == word;
        if follows {
            self.scanner.go_to(self.scanner.at() + word.len());
        }
        follows
    }

    /// Returns the error for text after a condition that is neither `AND` nor the end. Explains
    /// common mistakes, such as a keyword in lower case.
    fn not_joined(&self, expected: &str) -> TextError {
        let word = self.scanner.peek_word();
        let upper = word.to_ascii_uppercase();
        let rest = self.scanner.rest();
        if word == "OR" {
            return self.or_error(self.here(2), "OR of conditions that are not equalities");
        }
        if matches!(upper.as_str(), "AND" | "OR") && word != upper {
            let message = format!("keyword {} is not in capitals", shorten(word));
            return self
                .scanner
                .error(Kind::KeywordCase, self.here(word.len()), message)
                .with_hint(format!("Write {upper}."));
        }
        for (symbol, keyword) in [("&", "AND"), ("|", "OR")] {
            if rest.starts_with(symbol) {
                return self
                    .scanner
                    .unexpected(expected)
                    .with_hint(format!("Write {keyword}."));
            }
        }
        match self.scanner.peek() {
            Some(')') => self
                .scanner
                .error(Kind::Parentheses, self.here(1), "this parenthesis was not opened")
                .with_hint("Remove it."),
            Some('*') => self.wildcard(),
            Some('(' | '-' | '!' | '"' | '\'' | ',') => self.missing_and(1),
            _ if !word.is_empty() => self.missing_and(word.len()),
            _ => self.scanner.unexpected(expected),
        }
    }

    fn missing_and(&self, length: usize) -> TextError {
        self.scanner
            .error(
                Kind::MissingAnd,
                self.here(length),
                "AND is missing between conditions",
            )
            .with_hint("Write AND between conditions: white space or a comma does not join them.")
    }

    fn negation(&self, length: usize) -> TextError {
        self.scanner
            .error(
                Kind::UnsupportedNegation,
                self.here(length),
                "negation (NOT, -) is not supported",
            )
            .with_hint(NEGATION_HINT)
    }

    fn wildcard(&self) -> TextError {
        self.scanner
            .error(
                Kind::UnsupportedWildcard,
                self.here(1),
                "the wildcard `*` is not supported",
            )
            .with_hint(
                "Write startsWith(field, \"prefix\") for a prefix, or leave out the condition. A star in a \
                 string is an ordinary character.",
            )
    }

    fn function(&self, name: &str, reason: &str) -> TextError {
        let message = format!("function {} is not supported: {reason}", shorten(name));
        let hint = if name.eq_ignore_ascii_case("startswith") {
            "Write startsWith with a capital W.".to_owned()
        } else {
            CONDITION_HINT.to_owned()
        };
        self.scanner
            .error(Kind::UnsupportedFunction, self.here(name.len()), message)
            .with_hint(hint)
    }

    /// Returns the span of the next `length` bytes of the text.
    fn here(&self, length: usize) -> Span {
        Span::new(self.scanner.at(), self.scanner.at() + length)
    }
}

/// Returns the operator at the beginning of `rest`, and its length in bytes. If `rest` begins with
/// an operator of another language, the error contains that operator, and a hint with the
/// replacement.
fn operator_at(rest: &str) -> Result<(Operator, usize), Option<(&str, &'static str)>> {
    const REFUSED: [(&str, &str); 11] = [
        ("!=", NEGATION_HINT),
        ("<>", NEGATION_HINT),
        ("==", "Write = once."),
        ("=~", "Write startsWith(field, \"prefix\") for a prefix."),
        ("=<", "Write <=."),
        ("=>", "Write >=."),
        ("!", NEGATION_HINT),
        (
            ":",
            "Write = for an equality: `:` tests whether a collection has an element.",
        ),
        ("~", "Write startsWith(field, \"prefix\") for a prefix."),
        (
            ".",
            "Write the name of a field of the collection: fields inside of fields cannot be queried.",
        ),
        ("≠", NEGATION_HINT),
    ];
    const REFUSED_WORDS: [(&str, &str); 6] = [
        ("IN", "Write one equality for each value: `a = 1 OR a = 2`."),
        ("LIKE", "Write startsWith(field, \"prefix\") for a prefix."),
        ("BETWEEN", "Write both ends: `a >= 1 AND a < 5`."),
        ("CONTAINS", "Write startsWith(field, \"prefix\") for a prefix."),
        ("IS", "Write = for an equality."),
        ("NOT", NEGATION_HINT),
    ];
    for (symbol, hint) in REFUSED {
        if rest.starts_with(symbol) {
            return Err(Some((&rest[..symbol.len()], hint)));
        }
    }
    for (symbol, operator) in [
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("=", Operator::Equal),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ] {
        if rest.starts_with(symbol) {
            return Ok((operator, symbol.len()));
        }
    }
    let length = rest
        .find(|character: char| !character.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let word = &rest[..length];
    Err(REFUSED_WORDS
        .into_iter()
        .find(|(refused, _)| word.eq_ignore_ascii_case(refused))
        .map(|(_, hint)| (word, hint)))
}

/// Returns a hint with the replacement for `text`, which has no quotes and is not a literal.
fn literal_hint(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "true" | "false") {
        return format!("Write {lower} in lower case.");
    }
    if lower == "null" {
        return "Leave out the condition: a value cannot be compared with null.".to_owned();
    }
    let unsigned = text.trim_start_matches('+');
    let stripped = unsigned.trim_start_matches('0');
    let padded = unsigned.strip_suffix('.').unwrap_or(unsigned);
    for number in [unsigned, padded, stripped, &format!("0{unsigned}")] {
        if is_number(number) {
            return format!("Write the number as {number}.");
        }
    }
    if text.chars().count() > 40 {
        return "Put values in quotes, except numbers, true and false.".to_owned();
    }
    format!(
        "Put values in quotes, except numbers, true and false: {}.",
        quote(text)
    )
}
