//! Phases of the benchmark: one module for each measurement.

mod buckets;
mod cache;
mod cassandra;
pub(crate) mod cassandra_queues;
mod cassandra_repair;
mod cassandra_views;
mod collation;
mod copy;
mod http;
mod instructions;
mod intersect;
mod layers;
mod load;
mod pages;
mod queues;
mod readers;
pub(crate) mod reopen;
mod size;
mod stores;
mod unique;
mod views;
mod writes;

use std::time::Instant;

use crate::report::Section;
use crate::world::World;

pub(crate) use instructions::read_in_a_loop;

/// Runs the phase (measurement) with the given name, and returns its results.
///
/// # Errors
/// Returns a message if something is missing that the phase needs, such as a database server.
pub(crate) fn run(phase: &str, world: &mut World) -> Result<Section, String> {
    world.progress.phase(phase);
    // Prepare the shared data first, because the reported time of the phase must not include the
    // preparation.
    if matches!(phase, "layers" | "pages" | "cache" | "size" | "readers") {
        world.data()?;
    }
    let started = Instant::now();
    let section = match phase {
        "layers" => layers::run(world),
        "pages" => pages::run(world),
        "cache" => cache::run(world),
        "size" => size::run(world),
        "readers" => readers::run(world),
        "writes" => writes::run(world),
        "load" => Ok(load::run(world)),
        "views" => Ok(views::run(world)),
        "queues" => queues::run(world),
        "cassandra-buckets" => buckets::cassandra(world),
        "intersect" => intersect::embedded(world),
        "cassandra-intersect" => intersect::cassandra(world),
        "copy" => copy::run(world),
        "reopen" => Ok(reopen::run(world)),
        "cassandra" => cassandra::run(world),
        "cassandra-repair" => cassandra_repair::run(world),
        "cassandra-views" => cassandra_views::run(world),
        "collation" => collation::run(world),
        "unique" => unique::run(world),
        phase if phase.starts_with("cassandra-queues") => cassandra_queues::run(phase, world),
        "http" => http::run(world),
        _ => instructions::run(world),
    }?;
    Ok(Section {
        phase: phase.to_owned(),
        command: world.arguments.command(phase),
        seconds: started.elapsed().as_secs_f64(),
        ..section
    })
}
