//! Filter text as chips: one per condition, to be removed, replaced and added.

use recto::Type;
use recto::schema::Field;

use super::value::literal;

/// One condition of a filter, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chip {
    /// All of it.
    pub(super) text: String,
    /// Its field, operator and value, where it is that simple.
    pub(super) parts: Option<Parts>,
}

/// A condition of one field with one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) field: String,
    pub(super) operator: String,
    pub(super) value: String,
}

/// What a condition asks of a field, by the name it has in forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    OneOf,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    StartsWith,
}

impl Operator {
    pub(super) const RANGE: [Self; 4] = [Self::GreaterOrEqual, Self::Greater, Self::LessOrEqual, Self::Less];

    /// Its name in forms.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::OneOf => "in",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::StartsWith => "startsWith",
        }
    }

    /// How people read it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::OneOf => "is one of (a, b)",
            Self::Less => "<",
            Self::LessOrEqual => "≤",
            Self::Greater => ">",
            Self::GreaterOrEqual => "≥",
            Self::StartsWith => "starts with",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Equal, Self::OneOf, Self::StartsWith]
            .into_iter()
            .chain(Self::RANGE)
            .find(|operator| operator.name() == name)
    }

    fn is_lower(self) -> bool {
        matches!(self, Self::Greater | Self::GreaterOrEqual)
    }

    fn is_upper(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual)
    }
}

/// The conditions of a filter text; `None` if it does not divide into conditions.
pub(super) fn chips(text: &str) -> Option<Vec<Chip>> {
    let terms = split(text)?;
    let chip = |text: String| Chip {
        parts: parts(&text),
        text,
    };
    Some(terms.into_iter().map(chip).collect())
}

/// Divides at each `AND` that stands outside of strings.
fn split(text: &str) -> Option<Vec<String>> {
    let mut terms = Vec::new();
    let mut term = String::new();
    let mut word_start = true;
    let mut quote = None;
    let mut rest = text.char_indices();
    while let Some((at, character)) = rest.next() {
        if let Some(open) = quote {
            term.push(character);
            match character {
                '\\' => term.extend(rest.next().map(|(_, escaped)| escaped)),
                _ if character == open => quote = None,
                _ => {}
            }
            continue;
        }
        let after = text[at..].strip_prefix("AND");
        let is_word =
            after.is_some_and(|after| !after.starts_with(|next: char| next.is_alphanumeric() || next == '_'));
        if word_start && is_word {
            terms.push(std::mem::take(&mut term));
            rest.nth("ND".len() - 1);
            word_start = false;
            continue;
        }
        if character == '"' || character == '\'' {
            quote = Some(character);
        }
        word_start = !(character.is_alphanumeric() || character == '_');
        term.push(character);
    }
    terms.push(term);
    let terms: Vec<String> = terms.iter().map(|term| term.trim().to_owned()).collect();
    match terms.as_slice() {
        [only] if only.is_empty() => Some(Vec::new()),
        _ if quote.is_some() || terms.iter().any(String::is_empty) => None,
        _ => Some(terms),
    }
}

fn parts(term: &str) -> Option<Parts> {
    if let Some(inside) = term
        .strip_prefix("startsWith(")
        .and_then(|rest| rest.strip_suffix(')'))
    {
        let (field, value) = inside.split_once(',')?;
        return Some(Parts {
            field: field.trim().to_owned(),
            operator: Operator::StartsWith.name().to_owned(),
            value: value.trim().to_owned(),
        });
    }
    let is_name =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    // Of alternatives, `(a = 1 OR a = 2)`, the field is what forms need to know.
    let bare = term.strip_prefix('(').unwrap_or(term).trim_start();
    let end = bare.find(|character| !is_name(character))?;
    let (field, rest) = bare.split_at(end);
    let rest = rest.trim_start();
    let operator = ["<=", ">=", "<", ">", "="]
        .into_iter()
        .find(|operator| rest.starts_with(operator))?;
    if field.is_empty() {
        return None;
    }
    let alternatives = term.starts_with('(') || term.contains(" OR ");
    Some(Parts {
        field: field.to_owned(),
        operator: if alternatives {
            Operator::OneOf.name()
        } else {
            operator
        }
        .to_owned(),
        value: rest[operator.len()..].trim().to_owned(),
    })
}

/// The filter text of conditions.
pub(super) fn joined<'a>(terms: impl IntoIterator<Item = &'a str>) -> String {
    terms.into_iter().collect::<Vec<_>>().join(" AND ")
}

/// The filter without the condition at `index`.
pub(super) fn without(chips: &[Chip], index: usize) -> String {
    let kept = chips.iter().enumerate().filter(|(at, _)| *at != index);
    joined(kept.map(|(_, chip)| chip.text.as_str()))
}

/// The filter with a condition on a field more, in the place of those it cannot stand beside: an
/// equality replaces all of the field's, a bound the one on its side.
pub(super) fn with(chips: &[Chip], field: &str, operator: Operator, condition: &str) -> String {
    let mut terms = Vec::with_capacity(chips.len() + 1);
    let mut placed = false;
    for chip in chips {
        if !replaces(chip, field, operator) {
            terms.push(chip.text.as_str());
        } else if !placed {
            terms.push(condition);
            placed = true;
        }
    }
    if !placed {
        terms.push(condition);
    }
    joined(terms)
}

fn replaces(chip: &Chip, field: &str, operator: Operator) -> bool {
    let Some(parts) = chip.parts.as_ref().filter(|parts| parts.field == field) else {
        return false;
    };
    match Operator::named(&parts.operator) {
        Some(held) => {
            let both_bounds =
                |side: fn(Operator) -> bool, other: fn(Operator) -> bool| side(operator) && other(held);
            !both_bounds(Operator::is_lower, Operator::is_upper)
                && !both_bounds(Operator::is_upper, Operator::is_lower)
        }
        None => false,
    }
}

/// The text of a condition.
pub(super) fn condition(field: &Field, operator: Operator, typed: &str) -> String {
    let name = &field.name;
    match operator {
        Operator::StartsWith => format!("startsWith({name}, {})", literal(&Type::Text, typed)),
        Operator::OneOf => {
            let values: Vec<String> = typed
                .split(',')
                .map(str::trim)
                .filter(|value| !value.is_empty())
                .map(|value| format!("{name} = {}", literal(&field.ty, value)))
                .collect();
            match values.as_slice() {
                [] => format!("{name} = {}", literal(&field.ty, typed)),
                [one] => one.clone(),
                _ => format!("({})", values.join(" OR ")),
            }
        }
        _ => format!("{name} {} {}", operator.name(), literal(&field.ty, typed)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn texts(filter: &str) -> Vec<String> {
        chips(filter).unwrap().into_iter().map(|chip| chip.text).collect()
    }

    #[test]
    fn a_filter_divides_at_ands_outside_of_strings() {
        assert!(texts("  ").is_empty());
        assert_eq!(texts("a = 1 AND b < \"x AND y\""), ["a = 1", "b < \"x AND y\""]);
        assert_eq!(texts("a = 'it\\'s AND' AND b = 2"), ["a = 'it\\'s AND'", "b = 2"]);
        assert_eq!(texts("a = \"\\\\\"AND b = 2"), ["a = \"\\\\\"", "b = 2"]);
        assert_eq!(
            texts("(a = 1 OR a = 2) AND ANDES = 3"),
            ["(a = 1 OR a = 2)", "ANDES = 3"]
        );
        assert_eq!(texts("größe = \"ß\" AND b = 1"), ["größe = \"ß\"", "b = 1"]);
    }

    #[test]
    fn what_does_not_divide_has_no_chips() {
        for text in ["a = 1 AND", "AND", "a = \"open", "a = 1 AND AND b = 2", "\"\\"] {
            assert_eq!(chips(text), None, "{text}");
        }
    }

    #[test]
    fn a_condition_takes_the_place_of_those_it_cannot_stand_beside() {
        let held = chips("a = 1 AND b >= 2 AND b < 9").unwrap();
        assert_eq!(
            with(&held, "a", Operator::Equal, "a = 7"),
            "a = 7 AND b >= 2 AND b < 9"
        );
        assert_eq!(
            with(&held, "b", Operator::Greater, "b > 5"),
            "a = 1 AND b > 5 AND b < 9"
        );
        assert_eq!(with(&held, "b", Operator::Equal, "b = 5"), "a = 1 AND b = 5");
        assert_eq!(
            with(&held, "c", Operator::Less, "c < 5"),
            "a = 1 AND b >= 2 AND b < 9 AND c < 5"
        );
        assert_eq!(without(&held, 1), "a = 1 AND b < 9");
    }

    #[test]
    fn alternatives_and_prefixes_know_their_field() {
        let chip = |text: &str| chips(text).unwrap().remove(0).parts.unwrap();
        assert_eq!(chip("(a = 1 OR a = 2)").field, "a");
        assert_eq!(chip("(a = 1 OR a = 2)").operator, "in");
        assert_eq!(chip("startsWith(name, \"x\")").field, "name");
        assert_eq!(chips("(a, b) > (1, 2)").unwrap()[0].parts, None);
    }

    #[test]
    fn conditions_are_written_by_type() {
        let text = Field {
            name: "carrier".into(),
            ty: Type::Text,
        };
        let number = Field {
            name: "flight".into(),
            ty: Type::Int,
        };
        assert_eq!(condition(&text, Operator::Equal, "U\"A"), r#"carrier = "U\"A""#);
        assert_eq!(
            condition(&text, Operator::OneOf, "UA, AA"),
            r#"(carrier = "UA" OR carrier = "AA")"#
        );
        assert_eq!(condition(&text, Operator::OneOf, "UA"), r#"carrier = "UA""#);
        assert_eq!(
            condition(&text, Operator::StartsWith, "U"),
            r#"startsWith(carrier, "U")"#
        );
        assert_eq!(condition(&number, Operator::GreaterOrEqual, "5"), "flight >= 5");
    }
}
