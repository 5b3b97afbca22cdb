//! Functions that run other processes with a time limit, inspect them, and send them signals.

use std::fs;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::RigError;

/// Interval between two checks of a condition for which a caller waits.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length of a failed command's output in an error, in bytes.
const EXCERPT_BYTES: usize = 4000;

/// Output of a command whose exit code was 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Text of the standard output.
    pub stdout: String,
    /// Text of the standard error output.
    pub stderr: String,
}

/// Calls `done` until it returns true, for at most `limit`. Returns false if the time is over.
pub(super) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Runs a command, and waits for its end. Returns an error after `limit`, or if the exit code is
/// not 0.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<Output, RigError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => RigError::Missing {
            program: program.clone(),
        },
        _ => RigError::Io {
            doing: format!("run {program}"),
            source,
        },
    })?;
    let stdout = child.stdout.take().map(read_aside);
    let stderr = child.stderr.take().map(read_aside);
    let mut ended = None;
    let in_time = wait_until(limit, || {
        ended = child.try_wait().transpose();
        ended.is_some()
    });
    if !in_time {
        // This kills only the child, not its children. Ignore an error, because the child may have
        // ended.
        let _ = child.kill();
        let _ = child.wait();
        return Err(RigError::TookTooLong {
            what: line_of(command),
            limit,
        });
    }
    let status = ended.transpose().map_err(|source| RigError::Io {
        doing: format!("wait for {program}"),
        source,
    })?;
    let collect = |reader: Option<thread::JoinHandle<String>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    let output = Output {
        stdout: collect(stdout),
        stderr: collect(stderr),
    };
    if status.is_some_and(|status| status.success()) {
        return Ok(output);
    }
    Err(RigError::CommandFailed {
        command: line_of(command),
        code: status.and_then(|status| status.code()),
        output: tail(&format!("{}{}", output.stdout, output.stderr), EXCERPT_BYTES),
    })
}

fn read_aside(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Ignore a read error, and return the text before the error.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the last part of a text, at most `bytes` bytes long.
pub(super) fn tail(text: &str, bytes: usize) -> String {
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// Returns whether the process with this id runs or is paused, and has the argument `mark`.
pub(super) fn is_alive(pid: u32, mark: &str) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
}

/// Returns whether a process has ended completely: its id is free, belongs to another process, or
/// is that of a zombie without other threads.
pub(super) fn is_gone(pid: u32, mark: &str) -> bool {
    if is_alive(pid, mark) {
        return false;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let zombie = stat
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'));
    // Check the other threads of a zombie: they may still hold ports after the first thread has
    // ended.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    !zombie || threads <= 1
}

/// Returns whether all threads of a process are stopped, or the process has ended. A stop signal
/// reaches one thread first, so others may run for a moment.
pub(super) fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let Ok(stat) = fs::read_to_string(thread.path().join("stat")) else {
            return true;
        };
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        state.starts_with(['T', 't', 'Z', 'X'])
    })
}

/// Freezes a process that the caller started, by the signal SIGSTOP.
///
/// # Errors
/// The caller may not send a signal to the process.
pub fn freeze(pid: u32) -> Result<(), RigError> {
    signal(pid, Signal::STOP)
}

/// Resumes a frozen process, by the signal SIGCONT.
///
/// # Errors
/// The caller may not send a signal to the process.
pub fn let_go(pid: u32) -> Result<(), RigError> {
    signal(pid, Signal::CONT)
}

/// Sends a signal to a process, or does nothing if the process has ended. The caller must be sure
/// that the rig started the process.
pub(super) fn signal(pid: u32, signal: Signal) -> Result<(), RigError> {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    match kill_process(target, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(RigError::Io {
            doing: format!("signal process {pid}"),
            source: error.into(),
        }),
    }
}
