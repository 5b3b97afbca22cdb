//! Starts child processes, which tests stop or kill. Each child runs an ignored test of the same
//! program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

/// Returns the path of a test function in the form that the test harness accepts: without the name
/// of the program.
pub(crate) fn path_of<Test>(_test: Test) -> &'static str {
    let path = std::any::type_name::<Test>();
    path.split_once("::").map_or(path, |(_program, path)| path)
}

/// Starts an ignored test in a child process with these environment variables. Each line that the
/// child prints is sent to `lines`. A child may regard the end of its standard input as the signal
/// to end.
pub(crate) fn spawn(test: &str, variables: &[(&str, String)], lines: &Sender<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        // With a single thread, the harness would print the name of the test before the first line
        // of the child, so use two threads.
        .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=2"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, lines) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    child
}

/// Kills a process at once and waits for its end.
pub(crate) fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
