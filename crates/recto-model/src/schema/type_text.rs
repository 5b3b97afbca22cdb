//! Parser of types as text: `int`, `list<text>`, `map<text, frozen<address>>`, `vector<float, 3>`.

use std::sync::Arc;

use super::names::nearest;
use super::{MAX_TYPE_DEPTH, MAX_TYPE_PARTS, MAX_VECTOR_DIMENSION};
use crate::Type;
use crate::types::UdtType;

/// Maximum length of the text of a type, in bytes.
const MAX_TYPE_TEXT: usize = 4_096;

/// Error for text that is not a valid type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct TypeTextError {
    /// Reason why the text is not a valid type.
    pub reason: String,
    /// Suggested replacement, if one is known.
    pub hint: Option<String>,
    /// Position of the error in the text, as byte offsets. If the error is not in one word, the
    /// whole text.
    pub span: std::ops::Range<usize>,
}

/// Parses a type in the syntax of CQL. `frozen<…>` is accepted and has no meaning, because Recto
/// reads and writes every value as a whole. `varchar` is `text`. A name that is not a CQL type must
/// be in `udts`, the known user-defined types.
///
/// # Errors
/// [`TypeTextError`], with a suggested replacement: the text is not a type, or is nested deeper
/// than [`MAX_TYPE_DEPTH`], or the element of a set or the key of a map has a type without an
/// order.
///
/// ```
/// use recto_model::schema::parse_type;
/// assert_eq!(parse_type("map<text, frozen<list<int>>>", &[])?.to_string(), "map<text, list<int>>");
/// # Ok::<(), recto_model::schema::TypeTextError>(())
/// ```
pub fn parse_type(text: &str, udts: &[Arc<UdtType>]) -> Result<Type, TypeTextError> {
    let whole = 0..text.len();
    if text.len() > MAX_TYPE_TEXT {
        return Err(TypeTextError {
            reason: format!("the text of a type has at most {MAX_TYPE_TEXT} bytes"),
            hint: None,
            span: whole,
        });
    }
    let mut reader = Reader { text, at: 0, udts };
    let ty = reader.ty(1)?;
    reader.skip_spaces();
    if reader.at < text.len() {
        return Err(reader.wrong("no text may follow the type", None));
    }
    check_size(&ty).map_err(|error| TypeTextError { span: whole, ..error })?;
    Ok(ty)
}

/// Checks that a type that was built in code can be written to a schema text and parsed from it.
/// Does not check the fields of its user-defined types.
pub(super) fn check_type(ty: &Type) -> Result<(), TypeTextError> {
    check_size(ty)?;
    let mut udts = Vec::new();
    collect_udts(ty, &mut udts);
    parse_type(&ty.to_string(), &udts).map(drop)
}

fn check_size(ty: &Type) -> Result<(), TypeTextError> {
    let size = Size::of(ty);
    if size.depth > MAX_TYPE_DEPTH {
        return Err(too_deep(0..0));
    }
    if size.parts > MAX_TYPE_PARTS {
        return Err(TypeTextError {
            reason: format!("the type has more than {MAX_TYPE_PARTS} types, including those of its UDTs"),
            hint: Some("move a part of it into another collection, or store it as text".into()),
            span: 0..0,
        });
    }
    Ok(())
}

/// Appends to `udts` the user-defined types that the text of `ty` names. The text does not name
/// types inside these types.
fn collect_udts(ty: &Type, udts: &mut Vec<Arc<UdtType>>) {
    match ty {
        Type::Udt(udt) => udts.push(Arc::clone(udt)),
        Type::List(element) | Type::Set(element) | Type::Vector(element, _) => collect_udts(element, udts),
        Type::Map(key, value) => {
            collect_udts(key, udts);
            collect_udts(value, udts);
        }
        Type::Tuple(elements) => elements.iter().for_each(|element| collect_udts(element, udts)),
        _ => {}
    }
}

/// Returns the words in the text of a type that can be names of user-defined types.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !is_word(character))
        .filter(|word| !word.is_empty())
}

/// Returns whether `name` is a type or keyword of CQL, so that no user-defined type can have this
/// name.
pub(super) fn is_cql_type(name: &str) -> bool {
    scalar(name).is_some() || OTHER_WORDS.contains(&name)
}

/// Words of the CQL type syntax that are not scalar types.
const OTHER_WORDS: [&str; 9] = [
    "list", "set", "map", "tuple", "vector", "frozen", "counter", "varchar", "empty",
];

fn scalar(name: &str) -> Option<Type> {
    if name == "duration" {
        return Some(Type::Duration);
    }
    let name = if name == "varchar" { "text" } else { name };
    Type::ORDERABLE.into_iter().find(|ty| ty.to_string() == name)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn too_deep(span: std::ops::Range<usize>) -> TypeTextError {
    TypeTextError {
        reason: format!("a type has at most {MAX_TYPE_DEPTH} levels, including those of its UDTs"),
        hint: Some("use fewer levels, or store the inner part as text".into()),
        span,
    }
}

/// Nesting depth and number of parts of a type after its user-defined types are expanded. Counting
/// stops at the limits.
struct Size {
    depth: usize,
    parts: usize,
}

impl Size {
    fn of(ty: &Type) -> Self {
        let mut size = Self { depth: 0, parts: 0 };
        size.add(ty, 1);
        size
    }

    fn add(&mut self, ty: &Type, depth: usize) {
        self.depth = self.depth.max(depth);
        self.parts += 1;
        if depth > MAX_TYPE_DEPTH || self.parts > MAX_TYPE_PARTS {
            return;
        }
        match ty {
            Type::List(element) | Type::Set(element) | Type::Vector(element, _) => {
                self.add(element, depth + 1);
            }
            Type::Map(key, value) => {
                self.add(key, depth + 1);
                self.add(value, depth + 1);
            }
            Type::Tuple(elements) => elements.iter().for_each(|element| self.add(element, depth + 1)),
            Type::Udt(udt) => udt
                .fields
                .iter()
                .for_each(|(_, field)| self.add(field, depth + 1)),
            _ => {}
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    udts: &'a [Arc<UdtType>],
}

impl<'a> Reader<'a> {
    fn ty(&mut self, depth: usize) -> Result<Type, TypeTextError> {
        if depth > MAX_TYPE_DEPTH {
            return Err(too_deep(0..self.text.len()));
        }
        let (word, start) = self.word()?;
        match word {
            "list" => Ok(Type::List(Box::new(self.one(depth)?))),
            "set" => {
                let element = self.orderable(depth, "<", "set")?;
                self.expect(">")?;
                Ok(Type::Set(Box::new(element)))
            }
            "map" => {
                let key = self.orderable(depth, "<", "map's key")?;
                self.expect(",")?;
                let value = self.ty(depth + 1)?;
                self.expect(">")?;
                Ok(Type::Map(Box::new(key), Box::new(value)))
            }
            "tuple" => self.tuple(depth),
            "vector" => self.vector(depth),
            // `frozen` has no meaning in Recto, so it adds no level to the type. It still counts in
            // `depth`, to limit the recursion.
            "frozen" => self.one(depth),
            _ => self.named(word, start),
        }
    }

    fn one(&mut self, depth: usize) -> Result<Type, TypeTextError> {
        self.expect("<")?;
        let ty = self.ty(depth + 1)?;
        self.expect(">")?;
        Ok(ty)
    }

    fn orderable(&mut self, depth: usize, opening: &str, place: &str) -> Result<Type, TypeTextError> {
        self.expect(opening)?;
        let start = self.at;
        let ty = self.ty(depth + 1)?;
        if ty.is_orderable() {
            return Ok(ty);
        }
        Err(TypeTextError {
            reason: format!("a {place} must have an order, and {ty} has none"),
            hint: Some("use a list, whose elements need no order".into()),
            span: start..self.at,
        })
    }

    fn tuple(&mut self, depth: usize) -> Result<Type, TypeTextError> {
        self.expect("<")?;
        let mut elements = vec![self.ty(depth + 1)?];
        while self.take(",") {
            elements.push(self.ty(depth + 1)?);
        }
        self.expect(">")?;
        Ok(Type::Tuple(elements))
    }

    fn vector(&mut self, depth: usize) -> Result<Type, TypeTextError> {
        self.expect("<")?;
        let element = self.ty(depth + 1)?;
        self.expect(",")?;
        let (number, start) = self.word()?;
        let dimension = number
            .parse::<u16>()
            .ok()
            .filter(|dimension| (1..=MAX_VECTOR_DIMENSION).contains(dimension))
            .ok_or_else(|| TypeTextError {
                reason: format!("a vector's dimension is a whole number from 1 to {MAX_VECTOR_DIMENSION}"),
                hint: Some("for example vector<float, 3>".into()),
                span: start..self.at,
            })?;
        self.expect(">")?;
        Ok(Type::Vector(Box::new(element), dimension))
    }

    fn named(&self, word: &str, start: usize) -> Result<Type, TypeTextError> {
        if let Some(ty) = scalar(word) {
            return Ok(ty);
        }
        if let Some(udt) = self.udts.iter().find(|udt| udt.name == word) {
            return Ok(Type::Udt(Arc::clone(udt)));
        }
        let hint = if word == "counter" {
            Some("use bigint: a counter counts a repeated write twice".to_owned())
        } else {
            self.nearest_type(word)
                .map(|near| format!("did you mean `{near}`?"))
                .or_else(|| Some(format!("use a CQL type, or declare the type: [type.{word}]")))
        };
        Err(TypeTextError {
            reason: format!("there is no type `{word}`"),
            hint,
            span: start..self.at,
        })
    }

    fn nearest_type(&self, word: &str) -> Option<String> {
        /// Type names of other databases and languages, each with the CQL type to suggest.
        const OTHER_NAMES: [(&str, &str); 14] = [
            ("string", "text"),
            ("str", "text"),
            ("integer", "int"),
            ("int4", "int"),
            ("long", "bigint"),
            ("int8", "bigint"),
            ("i32", "int"),
            ("i64", "bigint"),
            ("f32", "float"),
            ("f64", "double"),
            ("bool", "boolean"),
            ("bytes", "blob"),
            ("datetime", "timestamp"),
            ("numeric", "decimal"),
        ];
        let lower = word.to_lowercase();
        if let Some((_, cql)) = OTHER_NAMES.iter().find(|(other, _)| *other == lower) {
            return Some((*cql).to_owned());
        }
        let scalars: Vec<String> = Type::ORDERABLE.iter().map(ToString::to_string).collect();
        let names = scalars
            .iter()
            .map(String::as_str)
            .chain(["duration", "list", "set", "map", "tuple", "vector"])
            .chain(self.udts.iter().map(|udt| udt.name.as_str()));
        nearest(&lower, names).map(str::to_owned)
    }

    fn word(&mut self) -> Result<(&'a str, usize), TypeTextError> {
        self.skip_spaces();
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.wrong("expected a type here", Some("for example text, or list<int>")));
        }
        self.at += length;
        Ok((&rest[..length], start))
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), TypeTextError> {
        if self.take(token) {
            return Ok(());
        }
        Err(self.wrong(
            &format!("expected `{token}` here"),
            Some("write types as list<T>, set<T>, map<K, V>, tuple<A, B>, vector<T, 3>"),
        ))
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Returns an error at the current position: the next character, or the end of the text.
    fn wrong(&self, reason: &str, hint: Option<&str>) -> TypeTextError {
        let length = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        TypeTextError {
            reason: reason.to_owned(),
            hint: hint.map(str::to_owned),
            span: self.at..self.at + length,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_type_reads_and_prints() {
        let address = Arc::new(UdtType {
            name: "address".into(),
            fields: vec![("street".into(), Type::Text)],
        });
        let udts = [address];
        for ty in Type::ORDERABLE {
            assert_eq!(parse_type(&ty.to_string(), &[]), Ok(ty));
        }
        for text in [
            "duration",
            "list<int>",
            "set<uuid>",
            "map<text, list<address>>",
            "tuple<int, text, tuple<blob>>",
            "vector<float, 3>",
            "vector<list<text>, 8192>",
            "address",
        ] {
            assert_eq!(parse_type(text, &udts).unwrap().to_string(), text);
        }
        assert_eq!(
            parse_type(" frozen < map< varchar ,frozen<set<int> > > >", &[])
                .unwrap()
                .to_string(),
            "map<text, set<int>>"
        );
    }

    #[test]
    fn explains_invalid_types() {
        let hint = |text: &str| parse_type(text, &[]).unwrap_err().hint.unwrap_or_default();
        assert!(hint("TEXT").contains("`text`"));
        assert!(hint("string").contains("`text`"));
        assert!(hint("timestmap").contains("`timestamp`"));
        assert!(hint("counter").contains("bigint"));
        assert!(hint("adress").contains("[type.adress]"));
        for text in [
            "",
            " ",
            "list",
            "list<",
            "list<int",
            "list<int>>",
            "list<>",
            "map<int>",
            "tuple<>",
            "vector<int>",
            "vector<int, 0>",
            "vector<int, 8193>",
            "vector<int, -1>",
            "int int",
            "set<list<int>>",
            "map<duration, int>",
            "é",
            "list<é>",
            "int,",
        ] {
            assert!(parse_type(text, &[]).is_err(), "{text}");
        }
        assert_eq!(parse_type("list<fexs>", &[]).unwrap_err().span, 5..9);
    }

    #[test]
    fn nesting_has_limits() {
        let nested = |depth: usize| format!("{}int{}", "list<".repeat(depth), ">".repeat(depth));
        assert!(parse_type(&nested(MAX_TYPE_DEPTH - 1), &[]).is_ok());
        assert!(parse_type(&nested(MAX_TYPE_DEPTH), &[]).is_err());
        assert!(parse_type(&nested(700), &[]).is_err());
        // Each type contains the previous type three times. Expanded, the last type would have 3^16
        // parts.
        let mut udts: Vec<Arc<UdtType>> = Vec::new();
        let refused = (0..MAX_TYPE_DEPTH).any(|level| {
            let inner = udts.last().map_or("int".to_owned(), |udt| udt.name.clone());
            let ty = parse_type(&format!("tuple<{inner}, {inner}, {inner}>"), &udts);
            udts.extend(ty.clone().map(|ty| {
                Arc::new(UdtType {
                    name: format!("t{level}"),
                    fields: vec![("a".into(), ty)],
                })
            }));
            ty.is_err()
        });
        assert!(refused);
    }
}
