//! Server process of a peer: starts it, measures its memory and processor time, and shuts it down.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};

use super::generator::get;

/// Maximum time from the start of a server to its first response.
const START: Duration = Duration::from_secs(60);
/// Maximum time from the signal to stop a server until its process ends.
const END: Duration = Duration::from_secs(20);
/// Interval at which the benchmark checks whether a server process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of clock ticks per second, the kernel's unit of processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Running server process of a peer. Dropping this value shuts the server down.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// File that receives the server's output. `None` if the benchmark reads the output.
    log: Option<PathBuf>,
}

impl Server {
    /// Starts a server that prints its URL at the end of its first line of output, and reads the
    /// address from that line.
    ///
    /// # Errors
    /// Returns a message if the server cannot be started, or if it ends immediately.
    pub(crate) fn announced(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let mut line = String::new();
        let stdout = child.stdout.as_mut().ok_or("no standard output")?;
        let _ = BufReader::new(stdout).read_line(&mut line);
        let url = line.split_whitespace().last().unwrap_or_default();
        if let Ok(address) = url.trim_start_matches("http://").trim_end_matches('/').parse() {
            return Ok(Self {
                child,
                address,
                log: None,
            });
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(format!("{command:?} printed {line:?}, which ends with no URL"))
    }

    /// Starts a server that listens at `address`, and waits until it responds to a GET of `path`.
    /// The server's output goes to the file `log`.
    ///
    /// # Errors
    /// Returns a message if the server cannot be started or does not respond.
    pub(crate) fn told(
        command: &mut Command,
        address: SocketAddr,
        path: &str,
        log: &Path,
    ) -> Result<Self, String> {
        let file = || fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()));
        let child = command
            .stdin(Stdio::null())
            .stdout(file()?)
            .stderr(file()?)
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let mut server = Self {
            child,
            address,
            log: Some(log.to_owned()),
        };
        server.wait_until_it_answers(path)?;
        Ok(server)
    }

    /// Repeats a GET request until the server responds with status 200. Fails after [`START`], or
    /// if the server process ends.
    pub(crate) fn wait_until_it_answers(&mut self, path: &str) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < START {
            if get(self.address, path).is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended: {status}\n{}", self.said()));
            }
            thread::sleep(LOOK_EVERY);
        }
        Err(format!("the server did not answer {path}\n{}", self.said()))
    }

    fn said(&self) -> String {
        let text = self.log.as_ref().and_then(|log| fs::read_to_string(log).ok());
        text.unwrap_or_default()
    }

    /// Returns the resident memory of the server process, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    }

    /// Returns the processor time that the server process and its worker processes have used so
    /// far, in seconds.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let own = self.child.id();
        let all = processes();
        let ticks: u64 = all
            .iter()
            .filter(|one| one.id == own || one.parent == own)
            .map(|one| one.ticks)
            .sum();
        ticks as f64 / TICKS_PER_SECOND
    }

    /// Sends the server a signal to stop, and waits for its end.
    pub(crate) fn stop(&mut self) {
        if let Some(id) = Pid::from_raw(self.child.id() as i32)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = kill_process(id, Signal::TERM);
        }
        let started = Instant::now();
        while started.elapsed() < END {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Process of the operating system, with its parent and its processor time in clock ticks.
struct Process {
    id: u32,
    parent: u32,
    ticks: u64,
}

fn processes() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

/// Reads the data of a process; see proc_pid_stat(5). The process name is in parentheses and may
/// contain spaces. The fields after the name are counted from 0: field 1 is the parent, and fields
/// 11 and 12 are the times in user space and in the kernel.
fn process(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        id,
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)?,
    })
}

/// Returns a local address with a port that was free a moment ago, and probably still is.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Raises this process's limit of open files as far as possible, and returns the new limit.
/// Processes started later inherit the limit.
pub(crate) fn raise_open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
