//! SQL statements for pages, optimized by hand, for SQLite and PostgreSQL.

use super::{Filter, Question};
use crate::flights::{CARRIER, CARRIERS, COLUMNS};

/// Differences between the SQL of SQLite and of PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// Character before the number of a statement parameter.
    pub(crate) marker: char,
    /// Returns the SQL expression of a time, given the SQL of its milliseconds.
    pub(crate) moment: fn(&str) -> String,
}

/// Returns the statement of a page. The parameters of a page beyond a row are the row's time (1), its flight
/// (2) and, if carriers are merged, its carrier (3). The number of rows is a literal, because planners handle
/// literals best.
pub(crate) fn page(dialect: Dialect, question: &Question, at_end: bool) -> String {
    let limit = question.rows;
    match question.filter {
        Filter::AnyOf => {
            // Use one subquery per carrier, which the index sorts and limits, and take the first rows of all
            // subqueries. An IN would read and sort every row of the eight carriers.
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
        // A page beyond a row needs only the bound at its far end, because the row itself is the other bound.
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

/// Returns the statement of a page by OFFSET. Merged carriers are an IN, as programs usually write it.
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
