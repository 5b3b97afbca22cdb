//! Filter text as chips: one for each condition, which users can remove, replace and add.

use recto::Type;
use recto::filter_text::{self, Literal, LiteralValue, Name, Operator as Compares, Span, Term};
use recto::schema::Field;

use super::value::literal;

/// Condition of a filter, which the console shows as a chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chip {
    /// Text of the condition, as in the filter.
    pub(super) text: String,
    term: Term,
}

/// Operator of a condition.
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

    /// Returns the operator as forms send it.
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

    /// Returns the operator as the console shows it.
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

impl Chip {
    /// Returns the field and the operator of a condition; `None` if the condition compares several
    /// fields.
    pub(super) fn asks(&self) -> Option<(&str, Operator)> {
        let operator = match &self.term {
            Term::Compare { operator, .. } => match operator {
                Compares::Equal => Operator::Equal,
                Compares::Less => Operator::Less,
                Compares::LessOrEqual => Operator::LessOrEqual,
                Compares::Greater => Operator::Greater,
                Compares::GreaterOrEqual => Operator::GreaterOrEqual,
            },
            Term::AnyOf { .. } => Operator::OneOf,
            Term::StartsWith { .. } => Operator::StartsWith,
            Term::Tuple { .. } => return None,
        };
        Some((&self.term.fields()[0].text, operator))
    }

    /// Returns the values with which the condition compares its field.
    pub(super) fn values(&self) -> &[Literal] {
        match &self.term {
            Term::Compare { literal, .. } | Term::StartsWith { prefix: literal, .. } => {
                std::slice::from_ref(literal)
            }
            Term::AnyOf { literals, .. } | Term::Tuple { literals, .. } => literals,
        }
    }
}

/// Formats a value as a person would type it, without quotes.
pub(super) fn typed(literal: &Literal) -> String {
    match &literal.value {
        LiteralValue::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Splits the text of a filter into conditions. Returns `None` if the text is not a valid filter.
pub(super) fn chips(text: &str) -> Option<Vec<Chip>> {
    let terms = filter_text::terms(text).ok()?.into_iter();
    let chip = |(term, span): (Term, Span)| Chip {
        text: text[span.start..span.end].to_owned(),
        term,
    };
    Some(terms.map(chip).collect())
}

/// Joins the texts of conditions to the text of a filter.
pub(super) fn joined<'a>(terms: impl IntoIterator<Item = &'a str>) -> String {
    terms.into_iter().collect::<Vec<_>>().join(" AND ")
}

/// Returns the text of the filter without the condition at `index`.
pub(super) fn without(chips: &[Chip], index: usize) -> String {
    let kept = chips.iter().enumerate().filter(|(at, _)| *at != index);
    joined(kept.map(|(_, chip)| chip.text.as_str()))
}

/// Returns the text of the filter with a new condition on a field. An equality replaces all
/// conditions of the field. A bound replaces only the bound on its side.
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
    let Some((_, held)) = chip.asks().filter(|(held, _)| *held == field) else {
        return false;
    };
    let are_both_ends = operator.is_lower() && held.is_upper() || operator.is_upper() && held.is_lower();
    !are_both_ends
}

/// Returns the text of a condition on a field, from an operator and the value that the user typed.
pub(super) fn condition(field: &Field, operator: Operator, typed: &str) -> String {
    let name = || Name::new(field.name.as_str(), Span::default());
    let of_type = |ty: &Type, typed: &str| Literal::new(literal(ty, typed), Span::default());
    let of = |typed: &str| of_type(&field.ty, typed);
    let compare = |operator, literal| Term::Compare {
        field: name(),
        operator,
        literal,
    };
    let term = match operator {
        Operator::StartsWith => Term::StartsWith {
            field: name(),
            prefix: of_type(&Type::Text, typed),
        },
        Operator::OneOf => {
            let values = typed.split(',').map(str::trim).filter(|value| !value.is_empty());
            let mut literals: Vec<Literal> = values.map(of).collect();
            match literals.len() {
                0 => compare(Compares::Equal, of(typed)),
                1 => compare(Compares::Equal, literals.remove(0)),
                _ => Term::AnyOf {
                    field: name(),
                    literals,
                },
            }
        }
        Operator::Equal => compare(Compares::Equal, of(typed)),
        Operator::Less => compare(Compares::Less, of(typed)),
        Operator::LessOrEqual => compare(Compares::LessOrEqual, of(typed)),
        Operator::Greater => compare(Compares::Greater, of(typed)),
        Operator::GreaterOrEqual => compare(Compares::GreaterOrEqual, of(typed)),
    };
    term.to_string()
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
            texts("( a = 1 OR a = 2 ) AND andes = 3"),
            ["( a = 1 OR a = 2 )", "andes = 3"]
        );
        assert_eq!(texts("a = \"ß\" AND b = 1"), ["a = \"ß\"", "b = 1"]);
    }

    #[test]
    fn returns_no_chips_for_invalid_text() {
        for text in [
            "a = 1 AND",
            "AND",
            "a = \"open",
            "a = 1 AND AND b = 2",
            "\"\\",
            "a = b",
        ] {
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
        let chip = |text: &str| chips(text).unwrap().remove(0);
        let either = chip("(a = 1 OR a = 2)");
        assert_eq!(either.asks(), Some(("a", Operator::OneOf)));
        assert_eq!(either.values().iter().map(typed).collect::<Vec<_>>(), ["1", "2"]);
        let prefix = chip("startsWith(name, \"x\")");
        assert_eq!(prefix.asks(), Some(("name", Operator::StartsWith)));
        assert_eq!(chip("(a, b) > (1, 2)").asks(), None);
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
