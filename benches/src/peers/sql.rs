//! The pages as careful people write them in SQL.

use super::{Filter, Question};
use crate::flights::{CARRIER, CARRIERS, COLUMNS};

/// What differs from one database to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// What stands before the number of a parameter.
    pub(crate) marker: char,
    /// How a moment is written that parameters and literals give in milliseconds.
    pub(crate) moment: fn(&str) -> String,
}

/// The statement of a page. Its parameters, in a page beyond a row: 1 the row's moment, 2 its flight,
/// and where carriers are merged 3 its carrier. The numbers of rows are literals, as the planner likes them.
pub(crate) fn page(dialect: Dialect, question: &Question, at_end: bool) -> String {
    let limit = question.rows;
    match question.filter {
        Filter::AnyOf => {
            // One branch of each carrier, which the index orders and ends, and the first rows of them all: an
            // IN would read and sort every row of the eight.
            let branches: Vec<String> = CARRIERS
                .iter()
                .map(|carrier| {
                    format!(
                        "SELECT * FROM ({}) AS branch",
                        branch(dialect, question, at_end, carrier)
                    )
                })
                .collect();
            let branches = branches.join(" UNION ALL ");
            format!(
                "SELECT {COLUMNS} FROM ({branches}) AS merged ORDER BY {} LIMIT {limit}",
                order(question.backward, true)
            )
        }
        _ => branch(dialect, question, at_end, CARRIER),
    }
}

fn branch(dialect: Dialect, question: &Question, at_end: bool, carrier: &str) -> String {
    let mut conditions = vec![format!("carrier = '{carrier}'")];
    if question.filter == Filter::Range {
        // The end that the page lies beyond is the tighter bound there.
        let (from, to) = question.span;
        let moment = |value: i64| (dialect.moment)(&value.to_string());
        if at_end || !question.backward {
            conditions.push(format!("time_hour >= {}", moment(from)));
        }
        if at_end || question.backward {
            conditions.push(format!("time_hour < {}", moment(to)));
        }
    }
    if !at_end {
        let marker = dialect.marker;
        let moment = (dialect.moment)(&format!("{marker}1"));
        let (beyond, within) = if question.backward { (">", "<") } else { ("<", ">") };
        let mut after = format!("time_hour {beyond} {moment} OR flight {within} {marker}2");
        if question.filter == Filter::AnyOf {
            after += &format!(" OR (flight = {marker}2 AND '{carrier}' {within} {marker}3)");
        }
        conditions.push(format!("time_hour {beyond}= {moment} AND ({after})"));
    }
    format!(
        "SELECT {COLUMNS} FROM flights WHERE {} ORDER BY {} LIMIT {}",
        conditions.join(" AND "),
        order(question.backward, false),
        question.rows
    )
}

/// The page at an offset, and with an IN that is left to the planner.
pub(crate) fn at_offset(question: &Question, offset: u64) -> String {
    let condition = match question.filter {
        Filter::AnyOf => format!("carrier IN ('{}')", CARRIERS.join("', '")),
        _ => format!("carrier = '{CARRIER}'"),
    };
    format!(
        "SELECT {COLUMNS} FROM flights WHERE {condition} ORDER BY {} LIMIT {} OFFSET {offset}",
        order(question.backward, question.filter == Filter::AnyOf),
        question.rows
    )
}

fn order(backward: bool, merged: bool) -> String {
    let (first, then) = if backward { ("", " DESC") } else { (" DESC", "") };
    let carrier = if merged {
        format!(", carrier{then}")
    } else {
        String::new()
    };
    format!("time_hour{first}, flight{then}{carrier}")
}
