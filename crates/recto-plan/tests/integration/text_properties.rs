//! Property tests of filter and sort text: printed text parses to the same value, and no text causes a panic.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use recto_model::Direction;
use recto_plan::text::{
    FilterText, Literal, LiteralValue, Name, Operator, SortTerm, Span, Term, filter, quote, sort,
};

fn name() -> impl Strategy<Value = Name> {
    "[a-z][a-z0-9_]{0,8}|and|or|not|true|desc".prop_map(|text| Name::new(text, Span::default()))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[ -~\\x00-\\x1f\"'\\\\*é\u{1F600}]{0,12}"]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        text().prop_map(LiteralValue::String),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?".prop_map(LiteralValue::Number),
        any::<bool>().prop_map(LiteralValue::Boolean),
    ]
    .prop_map(|value| Literal::new(value, Span::default()))
}

fn operator() -> impl Strategy<Value = Operator> {
    prop::sample::select(vec![
        Operator::Equal,
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
    ])
}

fn tuple() -> impl Strategy<Value = Term> {
    let pairs = prop::collection::vec((name(), literal()), 1..4);
    (pairs, operator()).prop_map(|(mut pairs, operator)| {
        pairs.sort_by(|left, right| left.0.text.cmp(&right.0.text));
        pairs.dedup_by(|left, right| left.0 == right.0);
        let (fields, literals) = pairs.into_iter().unzip();
        Term::Tuple {
            fields,
            operator,
            literals,
        }
    })
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![
        (name(), operator(), literal()).prop_map(|(field, operator, literal)| Term::Compare {
            field,
            operator,
            literal
        }),
        (name(), prop::collection::vec(literal(), 2..5))
            .prop_map(|(field, literals)| Term::AnyOf { field, literals }),
        (name(), text()).prop_map(|(field, prefix)| Term::StartsWith {
            field,
            prefix: Literal::new(LiteralValue::String(prefix), Span::default())
        }),
        tuple(),
    ]
}

fn filter_text() -> impl Strategy<Value = FilterText> {
    prop::collection::vec(term(), 0..6).prop_map(|terms| FilterText { terms })
}

fn sort_terms() -> impl Strategy<Value = Vec<SortTerm>> {
    prop::collection::vec((name(), any::<bool>()), 0..6).prop_map(|terms| {
        let mut out: Vec<SortTerm> = Vec::new();
        for (field, descending) in terms {
            if out.iter().all(|earlier| earlier.field != field) {
                let direction = if descending {
                    Direction::Descending
                } else {
                    Direction::Ascending
                };
                out.push(SortTerm { field, direction });
            }
        }
        out
    })
}

/// Parses a text as filter and as sort. Checks that each error points into the text and can be
/// displayed.
fn probe(text: &str) {
    for error in [filter::parse(text).err(), sort::parse(text).err()]
        .into_iter()
        .flatten()
    {
        assert!(text.is_char_boundary(error.span.start) && text.is_char_boundary(error.span.end));
        assert!(error.span.start <= error.span.end);
        assert_eq!(error.column, text[..error.span.start].chars().count() + 1);
        assert!(error.render(text).contains('^'));
    }
    if let Ok(filter) = filter::parse(text) {
        assert_eq!(filter::parse(&filter.to_string()).unwrap(), filter);
    }
}

proptest! {
    #[test]
    fn printed_filters_parse_back(filter in filter_text()) {
        let printed = filter.to_string();
        let parsed = filter::parse(&printed).unwrap();
        prop_assert_eq!(&parsed, &filter);
        prop_assert_eq!(parsed.to_string(), printed);
    }

    #[test]
    fn printed_sorts_parse_back(terms in sort_terms()) {
        prop_assert_eq!(sort::parse(&sort::print(&terms)).unwrap(), terms);
    }

    #[test]
    fn quoted_strings_are_json_and_parse_back(text in text()) {
        let quoted = quote(&text);
        prop_assert_eq!(&serde_json::from_str::<String>(&quoted).unwrap(), &text);
        let parsed = filter::parse(&format!("a={quoted}")).unwrap();
        let Term::Compare { literal, .. } = &parsed.terms[0] else { panic!() };
        prop_assert_eq!(&literal.value, &LiteralValue::String(text));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        probe(&text);
    }

    #[test]
    fn words_in_any_order_are_read_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "a", "b", "AND", "OR", "and", "NOT", "-", "(", ")", ",", "=", "<=", ">", "!=", ":", "*", "startsWith",
        "1", "-2e5", "\"x\"", "'", "\"", "\\", "\\u", "true", "null", " ", "\n", "é", "\u{1F600}", "desc", ".",
    ]), 0..14)) {
        probe(&words.concat());
        probe(&words.join(" "));
    }

    #[test]
    fn altered_filters_are_read_or_refused(
        filter in filter_text(),
        at in any::<prop::sample::Index>(),
        length in 0..3_usize,
        put in prop_oneof![Just(String::new()), any::<String>(), "[()\"'\\\\*=<>ANDOR ,-]{1,2}"],
    ) {
        let mut characters: Vec<char> = filter.to_string().chars().collect();
        let start = at.index(characters.len() + 1);
        let end = (start + length).min(characters.len());
        characters.splice(start..end, put.chars());
        probe(&characters.into_iter().collect::<String>());
    }
}
