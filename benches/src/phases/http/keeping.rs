//! Phases that measure the resources of `recto serve`: memory during a million requests, cost of
//! idle connections, and start time.

use std::time::{Duration, Instant};

use super::Site;
use super::contenders::requests_of;
use crate::measure::{median, quantile};
use crate::peers::http::generator::{Connection, RunLimit, drive, get};
use crate::peers::http::server::{Server, raise_open_files};
use crate::peers::ours::runtime;
use crate::report::{Section, Table, Target, number};
use crate::world::World;

/// Number of connections that send requests during the measurement of memory.
const CONNECTIONS: usize = 16;
/// Numbers of requests after which memory is measured. The reported growth is from the second
/// measurement to the last.
const REQUESTS: [u64; 4] = [10_000, 100_000, 300_000, 1_000_000];
/// Divisor of [`REQUESTS`] in a quick run.
const QUICK_PART: u64 = 50;
const MAX_GROWTH_PERCENT: f64 = 5.0;
/// Pause without requests before memory is measured.
const REST: Duration = Duration::from_secs(1);

/// Number of idle connections to open.
const IDLE: u64 = 10_000;
/// Number of files that this process or the server opens in addition to the connections.
const OTHER_FILES: u64 = 400;
/// Time for which the idle connections stay open. It is shorter than the time after which the
/// server closes idle connections.
const KEPT: Duration = Duration::from_secs(20);
const QUICK_KEPT: Duration = Duration::from_secs(1);
/// Time for which other connections request pages, while the idle connections are open.
const BESIDE: Duration = Duration::from_secs(3);

const STARTS: usize = 25;
const MAX_START_MS: f64 = 50.0;

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Measures the server's memory during a million requests.
pub(super) fn memory(world: &mut World, site: &Site) -> Result<Section, String> {
    let part = if world.arguments.quick { QUICK_PART } else { 1 };
    let points = REQUESTS.map(|requests| requests / part);
    let server = site.serve()?;
    let requests = requests_of(&server)?;
    let mut table = Table::new(
        format!("Memory of one server, {CONNECTIONS} connections"),
        &["requests", "resident, MB"],
    );
    let mut resident = Vec::new();
    let mut done = 0;
    for point in points {
        world.progress.say(&format!("memory: {done} requests done"));
        let until = RunLimit::Requests(point - done);
        let driven = drive(server.address, &requests, CONNECTIONS, until);
        if driven.failed > 0 {
            return Err(format!(
                "recto serve failed {} of {point} requests",
                driven.failed
            ));
        }
        done = point;
        std::thread::sleep(REST);
        let bytes = server.resident_bytes();
        table.push(number(point as f64), [Some(megabytes(bytes))]);
        resident.push(bytes as f64);
    }
    let growth = (resident[3] / resident[1] - 1.0) * 100.0;
    Ok(Section {
        text: format!(
            "**Memory.** The resident memory of a new server grew by {growth:.2} % from {} to {} requests for the same pages.",
            number(points[1] as f64),
            number(points[3] as f64),
        ),
        tables: vec![table],
        targets: vec![Target::at_most(
            format!(
                "`recto serve`, growth of memory from {} to {} requests, %",
                number(points[1] as f64),
                number(points[3] as f64)
            ),
            MAX_GROWTH_PERCENT,
            growth,
        )],
        ..Section::default()
    })
}

/// Measures the memory of idle connections, and how they slow down other connections.
pub(super) fn idle(world: &mut World, site: &Site) -> Result<Section, String> {
    let quick = world.arguments.quick;
    let allowed = raise_open_files();
    let wanted = IDLE.min(allowed.saturating_sub(OTHER_FILES));
    let server = site.serve()?;
    let requests = requests_of(&server)?;
    let beside = |server: &Server| {
        let time = if quick { QUICK_KEPT } else { BESIDE };
        drive(server.address, &requests, CONNECTIONS, RunLimit::Elapsed(time))
    };
    world.progress.say(&format!("{wanted} idle connections"));
    let runtime = runtime();
    let before = beside(&server);
    let resident = server.resident_bytes();
    let mut connections = Vec::new();
    let mut refused = None;
    for _ in 0..wanted {
        match runtime.block_on(asked_once(&server, &requests[0])) {
            Ok(connection) => connections.push(connection),
            Err(error) => {
                refused = Some(error.to_string());
                break;
            }
        }
    }
    let held = server.resident_bytes();
    let kept = if quick { QUICK_KEPT } else { KEPT };
    std::thread::sleep(kept);
    let during = beside(&server);
    let mut alive = 0;
    for connection in &mut connections {
        let again = runtime.block_on(connection.ask(&requests[0]));
        alive += u64::from(again.is_ok_and(|status| status == 200));
    }
    let mut table = Table::new(
        format!(
            "{CONNECTIONS} connections, without and with {} idle ones",
            number(wanted as f64)
        ),
        &["", "requests/s", "p50, ms", "p99, ms", "resident, MB"],
    );
    for (name, driven, bytes) in [("without", before, resident), ("with", during, held)] {
        let figures = [driven.rate(), driven.half / 1e3, driven.ninety_nine / 1e3];
        table.push(name, figures.into_iter().chain([megabytes(bytes)]).map(Some));
    }
    let each = held.saturating_sub(resident) as f64 / 1024.0 / connections.len().max(1) as f64;
    let mut text = format!(
        "**Idle connections.** The server kept {} for {:.0} s and then answered {}. Each takes {each:.1} KiB.",
        number(connections.len() as f64),
        kept.as_secs_f64(),
        number(alive as f64),
    );
    if wanted < IDLE {
        text += &format!(
            " This machine allows a process {allowed} open files, so there were fewer connections than {IDLE}."
        );
    }
    if let Some(error) = refused {
        text += &format!(" The next connection failed: {error}.");
    }
    Ok(Section {
        text,
        tables: vec![table],
        targets: vec![Target::at_least(
            "`recto serve`, idle connections kept and answered",
            IDLE as f64,
            alive as f64,
        )],
        ..Section::default()
    })
}

async fn asked_once(server: &Server, request: &[u8]) -> std::io::Result<Connection> {
    let mut connection = Connection::open(server.address).await?;
    match connection.ask(request).await? {
        200 => Ok(connection),
        status => Err(std::io::Error::other(format!("answered with {status}"))),
    }
}

/// Measures the time from starting a server on an existing store until the server reports that it
/// is ready.
pub(super) fn start(world: &mut World, site: &Site) -> Result<Section, String> {
    let rounds = world.arguments.rounds(STARTS);
    let (mut listening, mut ready) = (Vec::new(), Vec::new());
    // Discard the first start: if an earlier process did not close the store, this start also
    // repairs the store.
    for round in 0..=rounds {
        world.progress.say(&format!("start {round} of {rounds}"));
        let started = Instant::now();
        let mut server = site.serve()?;
        let listens = started.elapsed().as_secs_f64() * 1e3;
        let answer = get(server.address, "/readyz");
        let answers = started.elapsed().as_secs_f64() * 1e3;
        match answer {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => return Err(format!("/readyz was answered with {}", answer.status)),
            Err(error) => return Err(format!("/readyz: {error}")),
        }
        server.stop();
        if round > 0 {
            listening.push(listens);
            ready.push(answers);
        }
    }
    let mut table = Table::new(
        "Time from the start of the process on an existing store",
        &["", "median, ms", "slowest, ms"],
    );
    for (name, times) in [
        ("until it listens", &listening),
        ("until it answers /readyz", &ready),
    ] {
        let figures = [median(times.clone()), quantile(times.clone(), 1.0)];
        table.push(name, figures.map(Some));
    }
    Ok(Section {
        text: format!(
            "**Start.** The files of the program and of the store are in the system's cache. {rounds} starts, each after an orderly end."
        ),
        tables: vec![table],
        targets: vec![Target::at_most(
            "`recto serve`, time until it answers /readyz, ms",
            MAX_START_MS,
            median(ready),
        )],
        ..Section::default()
    })
}
