//! Program that runs fuzz targets on their corpora and on mutations of the corpora. It needs only cargo.
//!
//! ```text
//! recto-fuzz list
//! recto-fuzz run TARGET SECONDS [SEED]
//! recto-fuzz replay TARGET FILE…
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr)] // this is a command-line program

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use recto_fuzz::mutate::{Draws, mutate};
use recto_fuzz::{TARGETS, Target, corpus, target};
use recto_model::Environment;

/// Maximum time of one input, in nanoseconds. No input of the permitted size should need nearly as long.
const MAX_INPUT_NANOS: u64 = 5_000_000_000;
/// Maximum number of times that an input is mutated, before the next input of the corpus is used.
const MAX_GENERATIONS: usize = 4;

const USAGE: &str = "recto-fuzz list | run TARGET SECONDS [SEED] | replay TARGET FILE…";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("recto-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command of this program. Returns whether every property held.
fn command(words: &[&str]) -> Result<bool, Box<dyn std::error::Error>> {
    match words {
        ["list"] => {
            for target in TARGETS {
                println!("{}", target.name);
            }
            Ok(true)
        }
        ["run", name, seconds, seed @ ..] if seed.len() <= 1 => {
            let seed = match seed.first() {
                Some(seed) => seed.parse()?,
                None => u64::from_le_bytes(Environment::system().random()),
            };
            Ok(run(named(name)?, seconds.parse()?, seed)?)
        }
        ["replay", name, files @ ..] if !files.is_empty() => {
            let target = named(name)?;
            for file in files {
                (target.run)(&std::fs::read(Path::new(file))?);
            }
            println!("{name}: {} inputs, every property holds", files.len());
            Ok(true)
        }
        _ => Err(USAGE.into()),
    }
}

fn named(name: &str) -> Result<&'static Target, String> {
    target::find(name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("there is no target {name}; the targets are {}", names.join(", "))
    })
}

/// Runs a target on its corpus, and then on mutations of the corpus for `seconds` seconds. Returns whether
/// every property held.
fn run(target: &Target, seconds: u64, seed: u64) -> io::Result<bool> {
    let clock = Environment::system();
    let kept = corpus::read(target.name)?;
    if kept.is_empty() {
        return Err(io::Error::other(format!(
            "the corpus of {} is empty",
            target.name
        )));
    }
    println!(
        "{}: {} inputs, then {seconds} s from seed {seed}",
        target.name,
        kept.len()
    );
    for (_, input) in &kept {
        if !holds(target, &clock, input)? {
            return Ok(false);
        }
    }
    let mut draws = Draws::new(seed);
    let end = clock
        .monotonic_nanos()
        .saturating_add(seconds.saturating_mul(1_000_000_000));
    let mut inputs: u64 = 0;
    while clock.monotonic_nanos() < end {
        let mut input = kept[draws.below(kept.len())].1.clone();
        for _ in 0..=draws.below(MAX_GENERATIONS) {
            let other = &kept[draws.below(kept.len())].1;
            mutate(&mut input, other, target.words, &mut draws);
            inputs += 1;
            if !holds(target, &clock, &input)? {
                return Ok(false);
            }
        }
    }
    println!("{}: {inputs} mutations, every property holds", target.name);
    Ok(true)
}

/// Runs a target on an input. Returns whether its properties held and it ended within the time limit.
/// Otherwise, saves the input as a failure.
fn holds(target: &Target, clock: &Environment, input: &[u8]) -> io::Result<bool> {
    let begun = clock.monotonic_nanos();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let took = clock.monotonic_nanos() - begun;
    if outcome.is_ok() && took <= MAX_INPUT_NANOS {
        return Ok(true);
    }
    let path = corpus::keep(&corpus::failures(), target.name, input)?;
    println!(
        "{}: broken after {} ms by {}",
        target.name,
        took / 1_000_000,
        path.display()
    );
    println!(
        "again: cargo run -p recto-fuzz -- replay {} {}",
        target.name,
        path.display()
    );
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_breaks_a_property_is_noticed_and_kept() {
        let target = Target {
            name: "planted",
            run: |input| assert!(!input.contains(&b'x')),
            words: &[],
        };
        let clock = Environment::system();
        assert!(holds(&target, &clock, b"abc").unwrap());
        assert!(!holds(&target, &clock, b"axc").unwrap());
        let kept = corpus::keep(&corpus::failures(), "planted", b"axc").unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"axc");
        std::fs::remove_file(kept).unwrap();
    }
}
