//! `GET /queue-tables`: the tables that store message bodies, drawn as a ring in the order of their
//! rotation.

use std::f64::consts::TAU;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::session::{QueueTable, QueueTableSettings, QueueTables};

use super::super::layout::{Failure, Layout, page, sentence};
use super::super::text::{counted, grouped};
use super::queue_access::href;
use super::words::seconds;
use super::{BOARD, TABLES, follow};
use crate::access::{Access, Right};
use crate::app::App;

/// Width and height of the drawing. The unit is arbitrary, because style sheets scale the drawing.
const SIZE: f64 = 200.0;
/// Distance from the middle of the ring to the circle of each table.
const RADIUS: f64 = 80.0;
/// Maximum radius of the circle that represents a table.
const MAX_TABLE_RADIUS: f64 = 16.0;
/// Radius of a table's circle, as a share of the arc of the ring that the table has.
const FILLED: f64 = 0.4;

/// Handles `GET /queue-tables`: shows the tables of message bodies.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
) -> Result<Response, Failure> {
    access.check_every_queue(Right::Read)?;
    let session = Access::queue_session(app.session());
    let tables = session.queues()?.tables().await?;
    let layout = Layout {
        title: "Queue tables",
        trail: vec![
            ("Queues".to_owned(), Some(BOARD.to_owned())),
            ("Queue tables".to_owned(), None),
        ],
        fills_window: false,
        has_rows: false,
    };
    Ok(page(StatusCode::OK, &layout, &render(&tables)))
}

fn render(tables: &QueueTables) -> Markup {
    html! {
        div.heading {
            div {
                h1 { "Queue tables" }
                p.sort_order { "Tables of message bodies, which are filled and truncated in rotation" }
            }
            div.actions.without-script { a.button href=(TABLES) { "Refresh" } }
        }
        @if tables.needed {
            (follow(TABLES, "tables"))
            section #tables aria-label="State of the tables" {
                @if let Some(obstacle) = &tables.obstacle {
                    p.notice.stopped role="status" { "Blocked: " (sentence(obstacle)) " No message is lost, and messages can be sent." }
                }
                (drawing(&tables.tables))
                (table(&tables.tables))
            }
            p.dim.below {
                "New bodies go to the open table during the rotation interval. A closed table is truncated \
                 and free again when no message has needed it for the grace period. Bytes are those of the \
                 messages sent to its segments, not the sizes of files."
            }
        } @else {
            section.empty {
                h2 { "No queue tables" }
                p { "This store keeps bodies together with their messages." }
            }
        }
        section.health {
            h2 { "Options of all queues" }
            (options(tables.needed, &tables.options))
        }
        p.ways { a.button data-key="u" href=(BOARD) { "← Back to the queues" } }
    }
}

/// Draws the tables of message bodies as a ring. The middle says how long the open table has been
/// open.
#[allow(clippy::cast_precision_loss)] // the values are only for display
fn drawing(tables: &[QueueTable]) -> Markup {
    let part = TAU / tables.len().max(1) as f64;
    let radius = (RADIUS * part * FILLED).min(MAX_TABLE_RADIUS);
    let middle = SIZE / 2.0;
    let at = |number: usize| {
        let angle = part * number as f64 - TAU / 4.0;
        (middle + RADIUS * angle.cos(), middle + RADIUS * angle.sin())
    };
    let open = tables.iter().find(|table| table.phase == "open");
    let words = format!("Ring of {}", counted(tables.len() as u64, "table", "tables"));
    html! {
        svg.ring viewBox=(format!("0 0 {SIZE} {SIZE}")) role="img" aria-label=(words) {
            title { (words) }
            circle.way cx=(middle) cy=(middle) r=(RADIUS) {}
            @for (number, table) in tables.iter().enumerate() {
                @let (x, y) = at(number);
                g class=(table.phase) {
                    title { "Table " (table.number) ": " (table.phase) }
                    circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r=(format!("{radius:.1}")) {}
                    text x=(format!("{x:.1}")) y=(format!("{y:.1}")) { (table.number) }
                }
            }
            @if let Some(open) = open {
                text.middle x=(middle) y=(middle) { "open for " (age(open)) }
            }
        }
    }
}

fn table(tables: &[QueueTable]) -> Markup {
    html! {
        div.rows tabindex="0" role="region" aria-label="Tables" {
            table {
                thead {
                    tr {
                        th.number scope="col" { "Table" }
                        th scope="col" { "Phase" }
                        @for number in ["For", "Segments", "Messages", "Bytes"] { th.number scope="col" { (number) } }
                        th scope="col" { "Work unit" }
                    }
                }
                tbody {
                    @for table in tables {
                        tr {
                            td.number title=(table.name) { (table.number) }
                            td { (table.phase) }
                            td.number { (age(table)) }
                            td.number { (grouped(table.segments)) }
                            td.number { (at_least(table, grouped(table.messages))) }
                            td.number { (at_least(table, recto::text::bytes(table.bytes))) }
                            td { @if let Some(unit) = &table.unit { a href=(href(unit)) { (unit) } } }
                        }
                    }
                }
            }
        }
    }
}

fn age(table: &QueueTable) -> String {
    let age = table.age_seconds.map(Duration::try_from_secs_f64);
    let age = age.and_then(Result::ok).map(recto::text::duration);
    age.unwrap_or_else(|| "–".to_owned())
}

/// Adds `≥` before a number of messages or bytes in a table, if the number is a lower bound.
fn at_least(table: &QueueTable, said: String) -> String {
    if table.exact { said } else { format!("≥ {said}") }
}

fn options(is_needed: bool, options: &QueueTableSettings) -> Markup {
    let number = |number: Option<u32>| grouped(number.unwrap_or_default().into());
    html! {
        dl.record {
            @if is_needed {
                div { dt { "Rotation interval" } dd { (seconds(options.rotation_seconds.unwrap_or_default())) } }
                div { dt { "Grace period" } dd { (seconds(options.grace_seconds.unwrap_or_default())) } }
                div { dt { "Tables in rotation" } dd { (number(options.tables)) } }
            }
            div { dt { "Concurrent work units" } dd { "up to " (number(options.units)) } }
        }
        p.dim.below { code { "recto queue tables" } " changes these options." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_tables_and_names_what_blocks_them() {
        let table = |number: u32, phase: &str| QueueTable {
            number,
            phase: phase.to_owned(),
            ..QueueTable::default()
        };
        let mut tables = QueueTables {
            needed: true,
            tables: vec![
                QueueTable {
                    age_seconds: Some(125.0),
                    bytes: 12_345_678,
                    exact: true,
                    ..table(1, "open")
                },
                QueueTable {
                    unit: Some("mails/night".to_owned()),
                    ..table(9, "unit")
                },
            ],
            obstacle: Some("no table <is> free".to_owned()),
            ..QueueTables::default()
        };
        let drawn = render(&tables).into_string();
        for said in [
            "Ring of 2 tables",
            "<g class=\"open\"><title>Table 1: open</title><circle cx=\"100.0\" cy=\"20.0\" r=\"16.0\">",
            "<g class=\"unit\"><title>Table 9: unit</title><circle cx=\"100.0\" cy=\"180.0\"",
            "open for 2 min 05 s",
            "<td class=\"number\">12.3 MB</td>",
            "<td class=\"number\">≥ 0 B</td>",
            "href=\"/queues/mails%2Fnight\"",
            "no table &lt;is&gt; free",
            "hx-get=\"/queue-tables\"",
        ] {
            assert!(
                drawn.to_lowercase().contains(&said.to_lowercase()),
                "{said}: {drawn}"
            );
        }
        tables.obstacle = None;
        assert!(!render(&tables).into_string().contains("Blocked"));
        tables.needed = false;
        let drawn = render(&tables).into_string();
        assert!(
            drawn.contains("No queue tables") && !drawn.contains("<svg"),
            "{drawn}"
        );
    }
}
