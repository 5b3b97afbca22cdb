//! The user's command that handles messages of a queue. A new process runs the command for each
//! message, with the message body on standard input.

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

/// Number of bytes at the end of a command's standard error in which its last line is searched.
const MAX_TAIL_BYTES: usize = 8 << 10;
/// Maximum number of characters of a message's error, which is the last line of the command's
/// standard error.
const MAX_ERROR_CHARACTERS: usize = 1_000;
/// Maximum number of bytes of one read of the command's standard error.
const READ_BYTES: usize = 8 << 10;
/// Maximum time to wait for the rest of standard error after the command has ended. The wait has a
/// limit, because a child process of the command may keep the stream open.
const MAX_ERROR_WAIT: Duration = Duration::from_secs(1);

/// User's command with its arguments, and the queue whose messages it handles.
#[derive(Debug)]
pub(super) struct Program {
    file: OsString,
    arguments: Vec<OsString>,
    queue: String,
    stop: Stop,
    /// Error that prevents the command from running for any message, such as a missing program.
    /// `None`: no such error.
    broken: Mutex<Option<io::Error>>,
    /// Notification that `broken` was set.
    breaks: Notify,
}

impl Program {
    /// Creates a [`Program`] from a command line, for messages of a queue.
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

    /// Waits until an error shows that the command cannot run for any message, such as a missing
    /// program.
    pub(super) async fn breaks(&self) {
        self.breaks.notified().await;
    }

    /// Takes the error that prevents the command from running for any message. `None`: there was no
    /// such error.
    pub(super) fn broken(&self) -> Option<io::Error> {
        self.broken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }

    /// Runs the command for a message, and waits until it ends.
    ///
    /// # Errors
    /// The command cannot run, the message cannot be passed to it, or it failed. If it failed, the
    /// error is its last line on standard error.
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

    /// Returns the command to start for a message, with environment variables that describe the
    /// message.
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
        // Start a new process group, so that Ctrl-C reaches only the worker. The worker then waits
        // until the command ends.
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// Converts the error of starting the command. Records an error that would occur for every
    /// message: the program does not exist, or may not be executed.
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

/// Running process of a command. Dropping the value kills the process and its child processes.
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
            // Ignore an error: it means that all processes of the group have ended.
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

/// Writes the message body to the command's standard input, and waits until the command ends. The
/// command need not read its input.
async fn until_ended(child: &mut Child, input: Option<ChildStdin>, body: &[u8]) -> io::Result<ExitStatus> {
    let fed = async {
        if let Some(mut input) = input {
            let _ = input.write_all(body).await;
        }
    };
    tokio::select! {
        // Do not wait until the whole body is written: a child process may keep standard input open
        // without reading it.
        ended = child.wait() => ended,
        ended = async {
            fed.await;
            std::future::pending().await
        } => ended,
    }
}

/// Forwards a command's standard error to standard error of this process. Returns the last line, if
/// any.
async fn last_line(errors: Option<ChildStderr>) -> Option<String> {
    let mut errors = errors?;
    let (mut tail, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        // Ignore an error, because there is no other stream to report it on.
        let _ = io::stderr().write_all(&buffer[..read]);
        tail.extend_from_slice(&buffer[..read]);
        let more = tail.len().saturating_sub(MAX_TAIL_BYTES);
        tail.drain(..more);
    }
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(printable(line).chars().take(MAX_ERROR_CHARACTERS).collect())
}

/// Returns the last line of the standard error of a command that has ended. Waits at most
/// [`MAX_ERROR_WAIT`].
async fn said(errors: JoinHandle<Option<String>>) -> Option<String> {
    tokio::time::timeout(MAX_ERROR_WAIT, errors).await.ok()?.ok()?
}

/// Formats an exit status, such as `exit code 1`.
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
