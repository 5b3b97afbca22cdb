//! Work units (temporary queues) of a queue, as a section of the queue's page.

use maud::{Markup, html};
use recto::session::QueueStatus;

use super::super::text::grouped;
use super::queue_access::{QueueAccess, href};
use super::words::{age, depth};
use crate::problem::Problem;

/// Returns the list of a queue's work units; empty if there are none.
pub(super) async fn units(asked: &QueueAccess) -> Result<Markup, Problem> {
    // A name with `/` is that of a work unit, which cannot have work units.
    if asked.name.contains('/') {
        return Ok(html! {});
    }
    let units = asked.queues()?.units(&asked.name).await?;
    Ok(html! {
        @if !units.is_empty() {
            section.health {
                h2 { "Work units" }
                (table(&units))
            }
        }
    })
}

fn table(units: &[QueueStatus]) -> Markup {
    html! {
        div.rows tabindex="0" role="region" aria-label="Work units" {
            table {
                thead {
                    tr {
                        th scope="col" { "Work unit" }
                        @for number in ["Messages", "In flight", "Delayed", "Oldest"] { th.number scope="col" { (number) } }
                    }
                }
                tbody {
                    @for unit in units {
                        tr {
                            td { a.row href=(href(&unit.name)) { (unit.name) } }
                            td.number { (depth(unit)) }
                            td.number { (grouped(unit.in_flight)) }
                            td.number { (grouped(unit.delayed)) }
                            td.number { (age(unit)) }
                        }
                    }
                }
            }
        }
    }
}
