//! The command that handles a message: a process each, with the body on its standard input.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use recto::queues::Failure;
use recto::session::{ReceivedMessage, body_bytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::environment::{is_of_message, variables};
use crate::stop::Stop;
use crate::text::printable;

/// Bytes at the end of what a command says on standard error in which its last line is looked for.
const MAX_TAIL_BYTES: usize = 8 << 10;
/// Characters of that line that become the message's error.
const MAX_ERROR_CHARACTERS: usize = 1_000;
/// Bytes that are read of it at once.
const READ_BYTES: usize = 8 << 10;
/// How long what a command says is waited for after it ended: a process that it left behind may have standard error open.
const MAX_ERROR_WAIT: Duration = Duration::from_secs(1);

/// A command with its arguments.
#[derive(Debug)]
pub(super) struct Program {
    file: OsString,
    arguments: Vec<OsString>,
    queue: String,
    stop: Stop,
    /// Why it cannot be run at all.
    broken: Mutex<Option<io::Error>>,
    /// It cannot be run at all.
    breaks: Notify,
}

impl Program {
    /// The command of this line, for messages of a queue.
    pub(super) fn new(line: &[OsString], queue: String, stop: Stop) -> Self {
        Self {
            file: line.first().cloned().unwrap_or_default(),
            arguments: line.iter().skip(1).cloned().collect(),
            queue,
            stop,
            broken: Mutex::default(),
            breaks: Notify::new(),
        }
    }

    /// Waits until it turns out that the command cannot be run at all.
    pub(super) async fn breaks(&self) {
        self.breaks.notified().await;
    }

    /// Why it cannot be run at all, if so.
    pub(super) fn broken(&self) -> Option<io::Error> {
        self.broken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }

    /// Runs it for a message.
    ///
    /// # Errors
    /// It cannot be run, or cannot be told of the message, or did not end well: with the last line that it said on standard error.
    pub(super) async fn handle(&self, message: ReceivedMessage) -> Result<(), Failure> {
        let body = body_bytes(message.body.as_deref(), message.body_base64.as_deref())?;
        let variables = variables(&message, &self.queue)?;
        let child = self
            .command(&variables)
            .spawn()
            .map_err(|error| self.not_run(error))?;
        let mut running = Running::new(child);
        let (input, errors) = (running.child.stdin.take(), running.child.stderr.take());
        let errors = tokio::spawn(last_line(errors));
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            ended = until_ended(&mut running.child, input, &body) => ended,
            () = stop.insisted() => {
                running.kill();
                let _ = running.child.wait().await;
                return Err(Failure::not_begun());
            }
        };
        running.has_ended = true;
        let ended = ended.map_err(|error| Failure::new(format!("cannot wait for the command: {error}")))?;
        if ended.success() {
            return Ok(());
        }
        Err(Failure::new(
            said(errors).await.unwrap_or_else(|| end_text(ended)),
        ))
    }

    /// The process for a message, of which these variables tell.
    fn command(&self, variables: &BTreeMap<String, String>) -> Command {
        let mut command = Command::new(&self.file);
        command.args(&self.arguments);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_message(name)) {
            command.env_remove(name);
        }
        command.envs(variables);
        command
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // A group of its own: Ctrl-C is for the worker, which lets it finish.
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// A command that is not there, or may not be run, is no message's fault.
    fn not_run(&self, error: io::Error) -> Failure {
        let failure = Failure::new(format!("cannot run the command: {error}"));
        if !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
        ) {
            return failure;
        }
        *self
            .broken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
        self.breaks.notify_one();
        Failure::not_begun()
    }
}

/// A process that is killed, with those that it started, if nobody waits for it any more.
#[derive(Debug)]
struct Running {
    child: Child,
    id: Option<u32>,
    has_ended: bool,
}

impl Running {
    fn new(child: Child) -> Self {
        let id = child.id();
        Self {
            child,
            id,
            has_ended: false,
        }
    }

    #[cfg(unix)]
    fn kill(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let group = self
            .id
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(group) = group {
            // One that has ended by now need not be killed.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill(&mut self) {
        let _ = self.child.start_kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill();
        }
    }
}

/// Gives a command its message, and waits for its end. It need not read the message.
async fn until_ended(child: &mut Child, input: Option<ChildStdin>, body: &[u8]) -> io::Result<ExitStatus> {
    let fed = async {
        if let Some(mut input) = input {
            let _ = input.write_all(body).await;
        }
    };
    tokio::select! {
        // A process that it left behind may have standard input open, and not read it.
        ended = child.wait() => ended,
        ended = async {
            fed.await;
            std::future::pending().await
        } => ended,
    }
}

/// Passes on what a command says on standard error; its last line, if it says anything.
async fn last_line(errors: Option<ChildStderr>) -> Option<String> {
    let mut errors = errors?;
    let (mut tail, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        // Where nobody reads it, nobody misses it.
        let _ = io::stderr().write_all(&buffer[..read]);
        tail.extend_from_slice(&buffer[..read]);
        let more = tail.len().saturating_sub(MAX_TAIL_BYTES);
        tail.drain(..more);
    }
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(printable(line).chars().take(MAX_ERROR_CHARACTERS).collect())
}

/// What a command that ended said last.
async fn said(errors: JoinHandle<Option<String>>) -> Option<String> {
    tokio::time::timeout(MAX_ERROR_WAIT, errors).await.ok()?.ok()?
}

/// How a command ended that said nothing.
fn end_text(ended: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&ended) {
        return format!("killed by signal {signal}");
    }
    match ended.code() {
        Some(code) => format!("exit code {code}"),
        None => ended.to_string(),
    }
}
