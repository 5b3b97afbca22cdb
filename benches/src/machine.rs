//! Description of the machine and of the measured programs' versions, for the report.

use std::fs;
use std::process::Command;

/// Runs a program and returns the first line of its output, or `None` if the program does not
/// exist.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}

/// Returns the value in the first line of a file that has the form `name : value` or `name=value`.
fn entry(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned())
}

/// Returns the version of a crate in the workspace's lock file.
fn crate_version(name: &str) -> String {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let found = LOCK.split("[[package]]").find_map(|package| {
        let value = |key: &str| {
            let line = package.lines().find(|line| line.starts_with(key))?;
            Some(line.split('"').nth(1)?.to_owned())
        };
        (value("name = ")? == name).then(|| value("version = "))?
    });
    found.unwrap_or_else(|| "?".to_owned())
}

/// Returns names and values that describe the machine and the versions of the measured programs.
pub(crate) fn describe() -> Vec<(String, String)> {
    let unknown = || "?".to_owned();
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = entry("/proc/meminfo", "MemTotal").and_then(|text| {
        let kilobytes: f64 = text.split_whitespace().next()?.parse().ok()?;
        Some(format!("{:.0} GB", kilobytes / 1e6))
    });
    let load = fs::read_to_string("/proc/loadavg").ok();
    let rows = [
        (
            "processor",
            entry("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        ),
        ("processors", processors.to_string()),
        ("memory", memory.unwrap_or_else(unknown)),
        (
            "system",
            entry("/etc/os-release", "PRETTY_NAME").unwrap_or_else(unknown),
        ),
        ("kernel", first_line("uname", &["-sr"]).unwrap_or_else(unknown)),
        (
            "load before the run",
            load.map_or_else(unknown, |text| text.split(' ').next().unwrap_or("?").to_owned()),
        ),
        (
            "date",
            jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        ),
        (
            "commit",
            first_line("git", &["describe", "--always", "--dirty"]).unwrap_or_else(unknown),
        ),
        (
            "Rust",
            first_line("rustc", &["--version"]).unwrap_or_else(unknown),
        ),
        ("redb", crate_version("redb")),
        (
            "SQLite",
            format!("{} (rusqlite {})", rusqlite::version(), crate_version("rusqlite")),
        ),
        ("scylla (the driver)", crate_version("scylla")),
    ];
    rows.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
