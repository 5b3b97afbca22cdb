//! Hand-optimized SQL statements for pages of flights, for SQLite and PostgreSQL.

use super::{Filter, Question};
use crate::flights::{CARRIER, CARRIERS, COLUMNS};

/// Differences between the SQL dialects of SQLite and PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// Character before the index of a statement parameter, such as `$` in `$1`.
    pub(crate) marker: char,
    /// Returns the SQL expression of a point in time, given the SQL expression of its milliseconds
    /// since 1970.
    pub(crate) moment: fn(&str) -> String,
}

/// Returns the SQL statement that reads a page. The parameters of a page beyond a row are the row's
/// time (1), its flight number (2) and, if carriers are merged, its carrier (3). The number of rows
/// is a literal, because query planners handle literals best.
pub(crate) fn page(dialect: Dialect, question: &Question, at_end: bool) -> String {
    let limit = question.rows;
    match question.filter {
        Filter::AnyOf => {
            // Use one subquery per carrier, which the index sorts and limits, and take the first
            // rows of all subqueries. An IN would read and sort every row of the eight carriers.
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
        // A page beyond a row needs only the bound at its far end, because the row is the bound at
        // the other end.
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

/// Returns the SQL statement that reads a page after OFFSET rows. It merges carriers with IN, as
/// programs usually do.
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
