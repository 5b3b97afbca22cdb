//! Phase: requests per second of each server, and the time of a request.

use std::time::Duration;

use super::Site;
use super::contenders::{self, Contender};
use crate::measure::median;
use crate::peers::http::generator::{Driven, RunLimit, drive};
use crate::report::{Section, Table, Target};
use crate::world::World;

const CONNECTIONS: [usize; 3] = [1, 16, 256];
/// Number of connections at which the target is checked.
const AIMED_AT: usize = 16;
/// Target: minimum number of Recto's requests per second, as a fraction of the requests per second
/// of the server that responds from memory.
const WANTED: f64 = 0.6;
const ROUNDS: usize = 7;
/// Time for which each server gets requests in a round.
const SPELL: Duration = Duration::from_secs(3);
const QUICK_SPELL: Duration = Duration::from_millis(500);
/// Time for which each server gets requests before the first measured round.
const WARM_UP: Duration = Duration::from_secs(1);

/// Result of one round of one server.
struct Round {
    driven: Driven,
    /// Processor time that the server used in the round, in seconds.
    processor_seconds: f64,
}

pub(super) fn run(world: &mut World, site: &Site) -> Result<Section, String> {
    let rounds = world.arguments.rounds(ROUNDS);
    let spell = if world.arguments.quick { QUICK_SPELL } else { SPELL };
    world.progress.say("starting the servers");
    let contenders = contenders::start(site)?;
    let mut section = Section {
        text: format!("{rounds} rounds of {:.1} s.", spell.as_secs_f64()),
        ..Section::default()
    };
    for contender in &contenders {
        drive(
            contender.server.address,
            &contender.requests,
            AIMED_AT,
            RunLimit::Elapsed(WARM_UP),
        );
    }
    for connections in CONNECTIONS {
        let mut found: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            for turn in 0..contenders.len() {
                // Rotate the order in each round, so that no contender always runs first.
                let index = (turn + round) % contenders.len();
                let contender = &contenders[index];
                world.progress.say(&format!(
                    "{connections} connections, round {} of {rounds}: {}",
                    round + 1,
                    contender.name
                ));
                found[index].push(one(contender, connections, spell));
            }
        }
        check(&found[0], connections)?;
        section.tables.push(table(connections, &contenders, &found));
        if connections == AIMED_AT {
            section.targets.push(Target::at_least(
                format!("`recto serve` / axum from memory, {connections} connections"),
                WANTED,
                ratio(&found[0], &found[1]),
            ));
        }
    }
    Ok(section)
}

fn one(contender: &Contender, connections: usize, spell: Duration) -> Round {
    let before = contender.server.processor_seconds();
    let driven = drive(
        contender.server.address,
        &contender.requests,
        connections,
        RunLimit::Elapsed(spell),
    );
    Round {
        driven,
        processor_seconds: contender.server.processor_seconds() - before,
    }
}

/// Returns an error if any request to Recto failed.
fn check(rounds: &[Round], connections: usize) -> Result<(), String> {
    match rounds.iter().map(|round| round.driven.failed).sum() {
        0 => Ok(()),
        failed => Err(format!(
            "recto serve failed {failed} requests with {connections} connections"
        )),
    }
}

fn ratio(one: &[Round], other: &[Round]) -> f64 {
    let ratios = one
        .iter()
        .zip(other)
        .map(|(one, other)| one.driven.rate() / other.driven.rate());
    median(ratios.collect())
}

fn table(connections: usize, contenders: &[Contender], found: &[Vec<Round>]) -> Table {
    let plural = if connections == 1 { "" } else { "s" };
    let mut table = Table::new(
        format!("{connections} connection{plural}"),
        &[
            "",
            "requests/s",
            "/ axum",
            "p50, ms",
            "p99, ms",
            "server's processor time a request, µs",
            "bytes of a response",
            "failed",
        ],
    );
    for (contender, rounds) in contenders.iter().zip(found) {
        let middle = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        let failed: u64 = rounds.iter().map(|round| round.driven.failed).sum();
        let figures = [
            middle(|round| round.driven.rate()),
            ratio(rounds, &found[1]),
            middle(|round| round.driven.half / 1e3),
            middle(|round| round.driven.ninety_nine / 1e3),
            middle(|round| round.processor_seconds * 1e6 / round.driven.answered as f64),
            contender.bytes,
            failed as f64,
        ];
        table.push(contender.name, figures.map(Some));
    }
    table
}
