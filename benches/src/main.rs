//! Benchmarks that compare Recto with other databases on real data, in interleaved rounds. `cargo
//! run --release -p recto-benches -- help` lists the phases (measurements). `all` writes
//! `docs/benchmarks.md`.
//!
//! Each compared program decodes every row into a struct. Rounds of all programs are interleaved,
//! so that changes of the machine's speed affect all alike. The output has medians and ratios.
#![allow(
    clippy::doc_markdown,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

mod arguments;
mod calls;
mod flights;
mod machine;
mod measure;
mod peers;
mod phases;
mod progress;
mod report;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arguments::{Arguments, HELP};
use peers::http::memory;
use phases::cassandra_queues::servers;
use phases::reopen::{VICTIM, fill_until_killed};
use report::Report;
use world::World;

/// Text of `docs/benchmarks.md` before the results. [`AFTER`] is the text after the results.
const BEFORE: &str = include_str!("before.md");
const AFTER: &str = include_str!("after.md");
/// Path of the document that `all` writes.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty()
        || words
            .iter()
            .any(|word| matches!(word.as_str(), "help" | "--help" | "-h"))
            && words[0] != "loop"
    {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: Vec<String>) -> Result<(), String> {
    if let [word, folder, rows] = words.as_slice()
        && word == VICTIM
    {
        fill_until_killed(Path::new(folder), rows.parse().unwrap());
        return Ok(());
    }
    if let [word, file] = words.as_slice()
        && word == memory::WORD
    {
        return memory::serve(Path::new(file));
    }
    if words.first().is_some_and(|word| word == servers::WORD) {
        return servers::serve(&words[1..]);
    }
    let arguments = Arguments::parse(words.into_iter())?;
    match arguments.words[0].as_str() {
        "render" => render(&arguments),
        "loop" => {
            let word = |index: usize| arguments.words.get(index).map_or("", String::as_str);
            let folder = arguments
                .folder
                .clone()
                .unwrap_or_else(|| std::env::temp_dir().join("recto-benches-loop"));
            phases::read_in_a_loop(&folder, word(1), word(2).parse().unwrap_or(0))
        }
        _ => measure(arguments),
    }
}

/// Runs the requested phases (measurements), and writes their results.
fn measure(arguments: Arguments) -> Result<(), String> {
    let phases = arguments.phases()?;
    let is_all = arguments.words == ["all"];
    let mut report = Report {
        machine: machine::describe(),
        ..Report::default()
    };
    let mut world = World::new(arguments.clone());
    for phase in phases {
        report.sections.push(phases::run(phase, &mut world)?);
        // Save the results after each phase, so that a failure of a later phase does not lose them.
        if let Some(file) = &arguments.json {
            save(&report, file)?;
        }
    }
    world.progress.done();
    let text = report.to_markdown(BEFORE, AFTER);
    let document = arguments.document.clone();
    if let Some(file) = document.or_else(|| is_all.then(|| DOCUMENT.into())) {
        return write(&file, &text);
    }
    print!("{}", report.to_markdown("", ""));
    Ok(())
}

/// Writes `docs/benchmarks.md` from result files of earlier runs, without measuring.
fn render(arguments: &Arguments) -> Result<(), String> {
    let mut report = Report::default();
    for file in &arguments.words[1..] {
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        report.merge(serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"))?);
    }
    let file: PathBuf = arguments.document.clone().unwrap_or_else(|| DOCUMENT.into());
    write(&file, &report.to_markdown(BEFORE, AFTER))
}

fn save(report: &Report, file: &Path) -> Result<(), String> {
    write(file, &serde_json::to_string_pretty(report).unwrap())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
