//! Tests of filter and sort text: accepted text, rejected text, and the positions of errors.
#![allow(clippy::unwrap_used)]

use recto_model::Direction;
use recto_plan::text::{
    FilterText, Literal, LiteralValue, Name, Operator, Span, Subject, Term, TextError, TextErrorKind as Kind,
    filter, quote, sort,
};

fn name(text: &str) -> Name {
    Name::new(text, Span::default())
}

fn string(text: &str) -> Literal {
    Literal::new(LiteralValue::String(text.to_owned()), Span::default())
}

fn number(text: &str) -> Literal {
    Literal::new(LiteralValue::Number(text.to_owned()), Span::default())
}

fn compare(field: &str, operator: Operator, literal: Literal) -> Term {
    Term::Compare {
        field: name(field),
        operator,
        literal,
    }
}

fn terms(text: &str) -> Vec<Term> {
    filter::parse(text)
        .unwrap_or_else(|error| panic!("{}", error.render(text)))
        .terms
}

/// Returns the error of parsing a filter. Checks that the error has the kind `kind` and points at
/// `at`, a part of the text. An empty `at` means the end of the text.
#[track_caller]
fn refused(text: &str, kind: Kind, at: &str) -> TextError {
    let error = filter::parse(text).expect_err(text);
    assert_eq!(error.kind, kind, "{}", error.render(text));
    assert_eq!(
        &text[error.span.start..error.span.end],
        at,
        "{}",
        error.render(text)
    );
    if at.is_empty() {
        assert_eq!(error.span.start, text.len(), "{}", error.render(text));
    }
    assert_eq!(error.column, text[..error.span.start].chars().count() + 1);
    assert!(error.render(text).contains('^') && error.hint.is_some());
    error
}

#[test]
fn comparisons() {
    for (written, operator) in [
        ("=", Operator::Equal),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
    ] {
        assert_eq!(
            terms(&format!("due_1 {written} -5.25e-3")),
            [compare("due_1", operator, number("-5.25e-3"))]
        );
        assert_eq!(
            terms(&format!("due{written}-5")),
            [compare("due", operator, number("-5"))]
        );
    }
    assert_eq!(
        terms("done = true AND open=false\n\tAND\r\n x = 'a'"),
        [
            compare(
                "done",
                Operator::Equal,
                Literal::new(LiteralValue::Boolean(true), Span::default())
            ),
            compare(
                "open",
                Operator::Equal,
                Literal::new(LiteralValue::Boolean(false), Span::default())
            ),
            compare("x", Operator::Equal, string("a")),
        ]
    );
}

#[test]
fn no_words_is_no_terms() {
    for text in ["", " ", "\t\r\n  "] {
        assert_eq!(filter::parse(text).unwrap(), FilterText::default());
        assert_eq!(sort::parse(text).unwrap(), []);
    }
}

#[test]
fn or_binds_tighter_than_and_and_keeps_order_and_duplicates() {
    let any = Term::AnyOf {
        field: name("a"),
        literals: vec![number("2"), number("1"), number("2")],
    };
    let rest = compare("b", Operator::Greater, number("3"));
    assert_eq!(
        terms("a = 2 OR a = 1 OR a=2 AND b > 3"),
        [any.clone(), rest.clone()]
    );
    assert_eq!(terms("b > 3 AND (a = 2 OR a = 1 OR a=2)"), [rest, any]);
    assert_eq!(terms("(a = 2)"), [compare("a", Operator::Equal, number("2"))]);
}

#[test]
fn tuples_and_prefixes() {
    let tuple = Term::Tuple {
        fields: vec![name("a"), name("b")],
        operator: Operator::GreaterOrEqual,
        literals: vec![number("1"), string("x")],
    };
    assert_eq!(
        terms("( a , b ) >= ( 1 , \"x\" ) AND ((a,b)>=(1,'x'))"),
        [tuple.clone(), tuple]
    );
    assert_eq!(
        terms("(a) = (1)"),
        [Term::Tuple {
            fields: vec![name("a")],
            operator: Operator::Equal,
            literals: vec![number("1")],
        }]
    );
    assert_eq!(
        terms("startsWith ( title , \"a*\" )"),
        [Term::StartsWith {
            field: name("title"),
            prefix: string("a*")
        }]
    );
}

#[test]
fn words_that_are_keywords_elsewhere_are_field_names() {
    for field in ["true", "and", "or", "not", "in", "like", "null", "desc"] {
        assert_eq!(
            terms(&format!("{field} = 1 AND {field} = true")).len(),
            2,
            "{field}"
        );
    }
}

#[test]
fn spans_are_where_the_words_are() {
    let text = "é = 1";
    assert!(filter::parse(text).is_err());
    let text = "a = \"é\" AND bc = 17";
    let Term::Compare { field, literal, .. } = &terms(text)[1] else {
        panic!()
    };
    assert_eq!(&text[field.span.start..field.span.end], "bc");
    assert_eq!(&text[literal.span.start..literal.span.end], "17");
    let Term::Compare { literal, .. } = &terms(text)[0] else {
        panic!()
    };
    assert_eq!(&text[literal.span.start..literal.span.end], "\"é\"");
    let error = refused("a = \"é\" AND bc = x", Kind::InvalidLiteral, "x");
    assert_eq!(error.column, 18);
    assert_eq!(error.to_string(), "filter, column 18: `x` is not a value");
}

#[test]
fn string_escapes_are_those_of_json() {
    let written = r#""\"\\\/\b\f\n\r\t\u0041\u00e9\uD83D\uDE00 '*""#;
    let expected: String = serde_json::from_str(written).unwrap();
    assert_eq!(
        terms(&format!("a = {written}")),
        [compare("a", Operator::Equal, string(&expected))]
    );
    assert_eq!(
        terms(r#"a = 'it\'s "x" \u0000'"#),
        [compare("a", Operator::Equal, string("it's \"x\" \0"))]
    );
    refused(r#"a = "x\'y""#, Kind::InvalidEscape, r"\'");
    refused(r#"a = "x\x41""#, Kind::InvalidEscape, r"\x");
    refused(r#"a = "x\u12g4""#, Kind::InvalidEscape, r"\u12");
    refused(r#"a = "x\ud83d""#, Kind::InvalidEscape, r"\ud83d");
    refused(r#"a = "x\ude00""#, Kind::InvalidEscape, r"\ude00");
    refused(r#"a = "\ud83d\u0041""#, Kind::InvalidEscape, r"\ud83d\u0041");
    refused(r#"a = "\ud83d\u00""#, Kind::InvalidEscape, r"\u00");
    refused("a = \"x\\", Kind::InvalidEscape, "\\");
    refused("a = \"x\ny\"", Kind::ControlCharacter, "\n");
    refused("a = \"xy", Kind::UnterminatedString, "\"xy");
    refused("a = 'xy\"", Kind::UnterminatedString, "'xy\"");
}

#[test]
fn numbers_are_those_of_json() {
    for text in [
        "0",
        "-0",
        "10",
        "1.50",
        "1e9",
        "1E+9",
        "-1.5e-07",
        "123456789012345678901234567890",
    ] {
        assert_eq!(
            terms(&format!("a = {text}")),
            [compare("a", Operator::Equal, number(text))]
        );
    }
    for (text, instead) in [
        ("+5", "5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("007", "7"),
        ("2024-05-01", "\"2024-05-01\""),
        ("10s", "\"10s\""),
        ("NaN", "\"NaN\""),
        ("-Infinity", "\"-Infinity\""),
        ("0x1f", "\"0x1f\""),
        ("10:30", "\"10:30\""),
        ("1e", "\"1e\""),
        ("--1", "\"--1\""),
        ("TRUE", "true"),
        ("null", "null"),
        ("bob", "\"bob\""),
    ] {
        let hint = refused(&format!("a = {text}"), Kind::InvalidLiteral, text)
            .hint
            .unwrap();
        assert!(hint.contains(instead), "{text}: {hint}");
    }
}

#[test]
fn operators_of_others_are_refused_by_name() {
    for operator in [
        "!=", "<>", "==", "=~", "=<", "=>", ":", "~", ".", "IN", "like", "BETWEEN", "is", "not",
    ] {
        let error = refused(&format!("a {operator} 5"), Kind::UnsupportedOperator, operator);
        assert!(error.message.contains(operator), "{error}");
        assert!(error.hint.is_some());
    }
    for (text, at) in [
        ("NOT a = 1", "NOT"),
        ("-a = 1", "-"),
        ("not a = 1", "not"),
        ("not (a = 1)", "not"),
        ("!a", "!"),
    ] {
        refused(text, Kind::UnsupportedNegation, at);
    }
    for text in [
        "a = *",
        "a = foo*",
        "*",
        "a*",
        "a = 1 AND * = 5",
        "a = 5*",
        "a = \"x\"*",
    ] {
        refused(text, Kind::UnsupportedWildcard, "*");
    }
    for (text, at) in [
        ("contains(a, 'x')", "contains"),
        ("startswith(a, 'x')", "startswith"),
        ("a = now()", "now"),
        ("a = 1 AND lower (b) = 'x'", "lower"),
    ] {
        refused(text, Kind::UnsupportedFunction, at);
    }
}

#[test]
fn or_of_anything_but_equalities_of_one_field() {
    refused("a = 1 OR b = 2", Kind::UnsupportedOr, "b");
    refused("a = 1 OR a > 2", Kind::UnsupportedOr, "a > 2");
    refused("a < 1 OR a > 2", Kind::UnsupportedOr, "OR");
    refused("(a, b) = (1, 2) OR (a, b) = (1, 3)", Kind::UnsupportedOr, "OR");
    refused("a = 1 OR (a) = (2)", Kind::UnsupportedOr, "(a) = (2)");
    refused("a = 1 OR startsWith(a, 'x')", Kind::UnsupportedOr, "startsWith");
    refused("startsWith(a, 'x') OR a = 'y'", Kind::UnsupportedOr, "OR");
    refused("(a = 1) OR a = 2", Kind::UnsupportedOr, "OR");
}

#[test]
fn joins() {
    for (text, at) in [
        ("a = 1 b = 2", "b"),
        ("a = 1, b = 2", ","),
        ("a = 1 (b = 2)", "("),
        ("a = 1 -b = 2", "-"),
        ("a = \"x\" \"y\"", "\""),
    ] {
        refused(text, Kind::MissingAnd, at);
    }
    for text in [
        "a = 1 and b = 2",
        "a = 1 And b = 2",
        "a = 1 or a = 2",
        "(a = 1 or a = 2)",
    ] {
        let at = text
            .split(' ')
            .find(|word| word.eq_ignore_ascii_case("and") || *word == "or")
            .unwrap();
        refused(text, Kind::KeywordCase, at);
    }
    for (text, at, hint) in [("a = 1 && b = 2", "&", "AND"), ("a = 1 || a = 2", "|", "OR")] {
        let error = refused(text, Kind::Unexpected, at);
        assert!(error.hint.unwrap().contains(hint));
    }
    for text in [
        "a",
        "a =",
        "a = 1 AND",
        "a = 1 AND ",
        "a = 1 OR",
        "(",
        "(a",
        "(a,",
        "(a, b)",
        "(a, b) >",
        "(a, b) > (1",
        "startsWith",
        "startsWith(a",
        "startsWith(a, ",
    ] {
        refused(text, Kind::Unexpected, "");
    }
    for (text, at) in [
        ("AND a = 1", "AND"),
        ("a = 1 AND AND b = 2", "AND"),
        ("a = AND b = 1", "AND"),
        ("a = OR", "OR"),
        ("5 < a", "5"),
        ("\"a\" = 5", "\""),
        ("a = ]", "]"),
        ("a = “x”", "“"),
        ("a\u{a0}= 5", "\u{a0}"),
        ("a = \u{0}", "\0"),
    ] {
        refused(text, Kind::Unexpected, at);
    }
    refused("Due = 1", Kind::InvalidName, "Due");
    refused("_a = 1", Kind::InvalidName, "_a");
    refused("größe = 1", Kind::InvalidName, "größe");
}

#[test]
fn parentheses() {
    refused("((a = 1))", Kind::Parentheses, "(");
    refused("(a = 1 AND b = 2)", Kind::Parentheses, "AND");
    assert_eq!(terms("(startsWith(a, 'x'))"), terms("startsWith(a, 'x')"));
    refused("(startsWith(a, 'x') OR a = 1)", Kind::UnsupportedOr, "OR");
    refused("(startsWith(a, 'x')", Kind::Parentheses, "(");
    refused("((startsWith(a, 'x')))", Kind::Parentheses, "(");
    refused("(a = 1", Kind::Parentheses, "(");
    refused("a = 1)", Kind::Parentheses, ")");
    refused("a = 1 OR (a = 2)", Kind::Parentheses, "(");
    refused("(a = 1 b = 2)", Kind::MissingAnd, "b");
    refused("(a, b) > (1)", Kind::TupleLength, "(1)");
    refused("(a) > (1, 2)", Kind::TupleLength, "(1, 2)");
    refused("(a, b, a) > (1, 2, 3)", Kind::DuplicateField, "a");
    refused("(a, b) > 5", Kind::Unexpected, "5");
    refused("a = (1, 2)", Kind::Unexpected, "(");
    refused("() > ()", Kind::Unexpected, ")");
    refused("startsWith(a, 5)", Kind::InvalidLiteral, "5");
    refused("startsWith(a 'x')", Kind::Unexpected, "'");
}

#[test]
fn limits() {
    let conditions = |count: usize| vec!["a = 1"; count].join(" AND ");
    assert_eq!(
        terms(&conditions(filter::MAX_CONDITIONS)).len(),
        filter::MAX_CONDITIONS
    );
    refused(
        &conditions(filter::MAX_CONDITIONS + 1),
        Kind::TooManyConditions,
        "a = 1",
    );

    let values = |count: usize| vec!["a = 12"; count].join(" OR ");
    assert_eq!(terms(&values(filter::MAX_VALUES)).len(), 1);
    refused(&values(filter::MAX_VALUES + 1), Kind::TooManyValues, "12");

    let text = |length: usize| format!("a = \"{}\"", "é".repeat((length - 6) / 2));
    assert_eq!(
        text(recto_plan::text::MAX_TEXT_BYTES).len(),
        recto_plan::text::MAX_TEXT_BYTES
    );
    terms(&text(recto_plan::text::MAX_TEXT_BYTES));
    let long = text(recto_plan::text::MAX_TEXT_BYTES + 2);
    let error = filter::parse(&long).unwrap_err();
    assert_eq!(error.kind, Kind::TooLong);
    assert!(error.render(&long).chars().count() < 400);

    let fields = |count: usize| {
        (0..count)
            .map(|index| format!("f{index}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(
        sort::parse(&fields(sort::MAX_SORT_FIELDS)).unwrap().len(),
        sort::MAX_SORT_FIELDS
    );
    let error = sort::parse(&fields(sort::MAX_SORT_FIELDS + 1)).unwrap_err();
    assert_eq!(error.kind, Kind::TooManyFields);
}

#[test]
fn rendered_errors_point_into_the_text() {
    let text = "status = \"open\" AND due != 5";
    let error = filter::parse(text).unwrap_err();
    assert_eq!(
        error.render(text).lines().take(3).collect::<Vec<_>>(),
        [
            "filter, column 25: operator `!=` is not supported",
            "  status = \"open\" AND due != 5",
            "                          ^^",
        ]
    );
    let text = "a = 1\n\tAND b ≠ 2";
    let rendered = filter::parse(text).unwrap_err().render(text);
    assert_eq!(
        rendered.lines().skip(1).take(2).collect::<Vec<_>>(),
        ["   AND b ≠ 2", "         ^"]
    );
    let long = format!(
        "a = \"{}\" AND b != 2 AND c = \"{}\"",
        "x".repeat(200),
        "y".repeat(200)
    );
    let rendered = filter::parse(&long).unwrap_err().render(&long);
    let lines: Vec<&str> = rendered.lines().collect();
    assert!(
        lines[1].starts_with("  …") && lines[1].ends_with('…'),
        "{rendered}"
    );
    let column = lines[2].chars().take_while(|character| *character == ' ').count();
    assert_eq!(lines[1].chars().skip(column).take(2).collect::<String>(), "!=");
    // An error must not send control sequences of the filter to a terminal.
    let hostile = "a = \u{1b}[2J";
    let error = filter::parse(hostile).unwrap_err();
    assert!(!error.render(hostile).contains('\u{1b}'));
    let error = filter::parse("\u{1b}").unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'));
}

#[test]
fn semantic_errors_can_point_into_other_text() {
    let error = TextError::at(Subject::Filter, "é", Span::new(1, 90), "x").with_hint("y");
    assert_eq!(error.column, 2);
    assert!(error.render("é").ends_with("hint: y"));
}

#[test]
fn sorts() {
    let terms = sort::parse("  due   desc ,id,  name asc,desc desc ").unwrap();
    let found: Vec<_> = terms
        .iter()
        .map(|term| (term.field.text.as_str(), term.direction))
        .collect();
    assert_eq!(
        found,
        [
            ("due", Direction::Descending),
            ("id", Direction::Ascending),
            ("name", Direction::Ascending),
            ("desc", Direction::Descending)
        ]
    );
    assert_eq!(sort::print(&terms), "due desc, id, name, desc desc");
    let dashed = sort::parse("-due,id, name , -desc").unwrap();
    assert_eq!(sort::print(&dashed), sort::print(&terms));
    for (text, kind, column) in [
        ("a, b, a", Kind::DuplicateField, 7),
        ("a,", Kind::Unexpected, 3),
        (",a", Kind::Unexpected, 1),
        ("a,,b", Kind::Unexpected, 3),
        ("a DESC", Kind::KeywordCase, 3),
        ("a descending", Kind::Unexpected, 3),
        ("a b", Kind::Unexpected, 3),
        ("a desc b", Kind::Unexpected, 8),
        ("a.b", Kind::Unexpected, 2),
        ("- a", Kind::Unexpected, 2),
        ("--a", Kind::Unexpected, 2),
        ("-a desc", Kind::Unexpected, 4),
        ("a, -a", Kind::DuplicateField, 5),
        ("A", Kind::InvalidName, 1),
        ("\"a\"", Kind::Unexpected, 1),
    ] {
        let error = sort::parse(text).expect_err(text);
        assert_eq!(
            (error.kind, error.column),
            (kind, column),
            "{}",
            error.render(text)
        );
        assert!(error.to_string().starts_with("sort, column "));
        assert!(error.hint.is_some(), "{text}");
    }
}

#[test]
fn quoting() {
    assert_eq!(quote("a\"b\\c\n\u{1}\u{9f}é*"), r#""a\"b\\c\n\u0001\u009fé*""#);
}

#[test]
fn each_term_says_where_it_stands() {
    let text =
        " a = 1 AND ( b = \"x AND y \" OR b = 'ß' )AND startsWith( c, \"AND\" )\n AND (d, e) > (1, 2) ";
    let found: Vec<&str> = filter::parse_terms(text)
        .unwrap()
        .iter()
        .map(|(_, span)| &text[span.start..span.end])
        .collect();
    let expected = [
        "a = 1",
        "( b = \"x AND y \" OR b = 'ß' )",
        "startsWith( c, \"AND\" )",
        "(d, e) > (1, 2)",
    ];
    assert_eq!(found, expected);
    assert!(filter::parse_terms("  ").unwrap().is_empty());
    // Each term alone must be filter text with the same meaning.
    for ((term, _), text) in filter::parse_terms(text).unwrap().iter().zip(expected) {
        assert_eq!(terms(text), [term.clone()]);
    }
}
