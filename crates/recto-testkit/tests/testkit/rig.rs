//! Tests of the test clusters, with real Cassandra nodes.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use recto_testkit::rig::{Cluster, Node, Nodes, Rig, RigError, Source};

const GOSSIP_LIMIT: Duration = Duration::from_secs(90);
const END_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const OWNER_VARIABLE: &str = "RECTO_TEST_OWNER_DIR";

fn is_running(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn assert_ends(pid: u32) {
    let deadline = Instant::now() + END_LIMIT;
    while is_running(pid) {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        thread::sleep(POLL_INTERVAL);
    }
}

#[test]
#[ignore = "slow: starts four nodes, minutes in all"]
fn three_nodes_are_killed_paused_and_brought_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::start(Nodes::Three, dir.path()).expect("a cluster");
    assert_eq!(cluster.addresses().len(), 3);
    let [one, two, three] = cluster.nodes() else {
        panic!("three nodes")
    };
    for node in cluster.nodes() {
        assert!(node.answers(), "node {}", node.number());
        assert_eq!(
            node.members()
                .expect("a ring")
                .iter()
                .filter(|member| member.up)
                .count(),
            3
        );
    }

    let pid = three.pid().expect("running");
    three.kill().expect("killed");
    assert!(!is_running(pid) && three.pid().is_none() && !three.answers());
    one.wait_until_sees(three, false, GOSSIP_LIMIT)
        .expect("seen down");

    two.pause().expect("paused");
    assert!(!two.answers());
    assert!(two.pid().is_some(), "a paused node is there");
    two.resume().expect("resumed");
    assert!(two.answers());

    three.start().expect("back");
    assert!(three.answers());
    cluster.wait_until_all_up().expect("all up");

    let printed = one.nodetool(&["status"]).expect("nodetool").stdout;
    assert_eq!(
        printed.lines().filter(|line| line.starts_with("UN ")).count(),
        3,
        "{printed}"
    );
    let wrong = one.nodetool(&["no-such-command"]).expect_err("an error");
    assert!(matches!(wrong, RigError::CommandFailed { .. }), "{wrong}");

    two.stop().expect("drained");
    assert!(two.pid().is_none());
    two.pause().expect("nothing to pause");

    one.kill().expect("killed");
    three.kill().expect("killed");
    three.start().expect("a node starts while all others are dead");
    one.start().expect("back");

    let pids: Vec<u32> = cluster.nodes().iter().filter_map(Node::pid).collect();
    assert_eq!(pids.len(), 2);
    drop(cluster);
    assert!(
        pids.into_iter().all(|pid| !is_running(pid)),
        "dropping ends the nodes"
    );
    let again = Cluster::start(Nodes::One, dir.path()).expect_err("a used folder");
    assert!(matches!(again, RigError::DirInUse { .. }), "{again}");
}

#[test]
fn the_shared_node_is_one_for_all() {
    let shared = Cluster::shared().expect("a Cassandra");
    let again = Cluster::shared().expect("a Cassandra");
    assert!(std::ptr::eq(shared, again));
    if shared.source() == Source::Environment {
        return;
    }
    let status = shared.nodetool(&["status"]).expect("nodetool").stdout;
    assert!(status.contains("UN "), "{status}");
    // A separate process finds and uses the running node.
    let other = Command::new(env!("CARGO_BIN_EXE_recto-rig"))
        .arg("address")
        .output()
        .expect("recto-rig");
    assert!(
        other.status.success(),
        "{}",
        String::from_utf8_lossy(&other.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&other.stdout).trim(), shared.address());
}

#[test]
fn a_shared_node_is_started_again_when_dead_and_ended_when_idle() {
    let dir = tempfile::tempdir().expect("a folder");
    let rig = Rig::at(dir.path()).expect("a rig").without_containers();
    assert_eq!(rig.address().expect("no address"), None);
    let idle = Duration::from_secs(5);
    let first = rig.start(Nodes::One, Some(idle)).expect("started");
    assert_eq!(first.source(), Source::Maven);
    let pid_file = rig.dir().join("node1/pid");
    let pid = || -> u32 {
        fs::read_to_string(&pid_file)
            .expect("a pid")
            .trim()
            .parse()
            .expect("a number")
    };
    let before = pid();
    let other = rig.start(Nodes::Three, None).expect_err("another size");
    assert!(
        matches!(
            other,
            RigError::NodesDiffer {
                running: 1,
                wanted: 3
            }
        ),
        "{other}"
    );

    let killed = Command::new("kill")
        .args(["-9", &before.to_string()])
        .status()
        .expect("kill");
    assert!(killed.success());
    assert_ends(before);
    drop(first);
    let second = rig.start(Nodes::One, Some(idle)).expect("started again");
    let after = pid();
    assert!(is_running(after));

    // A node in use keeps running, longer than its idle limit and one check of the watch process.
    thread::sleep(3 * idle);
    assert!(is_running(after), "ended while in use");
    drop(second);
    assert_ends(after);
    assert_eq!(rig.address().expect("no address"), None);
    assert!(!rig.stop().expect("nothing to stop"));
}

/// Runs the program `recto-rig` in its own folder, without the environment of this process.
fn recto_rig(dir: &Path, path: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recto-rig"));
    command
        .args(&arguments[..1])
        .arg("--dir")
        .arg(dir.join("rig"))
        .args(&arguments[1..]);
    command
        .env_clear()
        .env("PATH", path)
        .env("RECTO_TEST_CASSANDRA_DIR", dir);
    command.output().expect("recto-rig")
}

/// Checks that a container engine that answers is used: one container is started, and removed at
/// the end. The machine may have no engine, so a stub records the calls, and returns the address of
/// the shared node.
#[test]
fn a_container_engine_that_answers_is_used() {
    let shared = Cluster::shared().expect("a Cassandra");
    let dir = tempfile::tempdir().expect("a folder");
    let docker = dir.path().join("docker");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}/calls\ncase $1 in info) echo 29.0.1 ;; run) echo pulling; echo 0a1b ;; \
         port) echo {} ;; inspect) echo true ;; exec) echo \"$4\" ;; esac\n",
        dir.path().display(),
        shared.address()
    );
    fs::write(&docker, script).expect("written");
    fs::set_permissions(&docker, Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let said = |arguments: &[&str]| {
        let output = recto_rig(dir.path(), &path, arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(said(&["start"]), shared.address());
    assert_eq!(said(&["start"]), shared.address());
    assert_eq!(said(&["address"]), shared.address());
    assert_eq!(said(&["nodetool", "1", "status"]), "status");
    assert_eq!(said(&["stop"]), "stopped");
    assert_eq!(said(&["stop"]), "nothing ran");
    let calls = fs::read_to_string(dir.path().join("calls")).expect("calls");
    let verbs: Vec<&str> = calls.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(verbs.iter().filter(|verb| **verb == "run").count(), 1, "{calls}");
    assert_eq!(verbs.last(), Some(&"rm"), "{calls}");
    assert!(calls.contains("paxos_variant: v2"), "{calls}");
}

#[test]
fn without_anything_the_error_says_what_to_install() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = recto_rig(dir.path(), "/nonexistent", &["start"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    for words in [
        "no `java`",
        "apt-get install openjdk-17-jre-headless maven",
        "RECTO_TEST_CASSANDRA=host:port",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn an_address_in_the_environment_wins() {
    let shared = Cluster::shared().expect("a Cassandra");
    let start = |address: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recto-rig"));
        command
            .arg("start")
            .env("RECTO_TEST_CASSANDRA", address)
            .env("PATH", "/nonexistent");
        command.output().expect("recto-rig")
    };
    let output = start(shared.address());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), shared.address());
    let output = start("nonsense");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nonsense is not host:port"));
}

#[test]
fn a_killed_owner_leaves_no_nodes() {
    let dir = tempfile::tempdir().expect("a folder");
    // The test harness expects the path of a test without the name of the test program.
    let path = concat!(module_path!(), "::owner_that_gets_killed");
    let (_, owner) = path.split_once("::").expect("a module of this program");
    let mut owner = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", owner, "--ignored", "--nocapture"])
        .env(OWNER_VARIABLE, dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the owner");
    let lines = BufReader::new(owner.stdout.take().expect("its output")).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("node ")?.parse().ok());
    let pid = pid.expect("the pid of a node");
    assert!(is_running(pid));
    owner.kill().expect("killed");
    owner.wait().expect("its end");
    assert_ends(pid);
}

/// Child process that the test `a_killed_owner_leaves_no_nodes` starts and kills.
#[test]
#[ignore = "child: started by a_killed_owner_leaves_no_nodes"]
#[allow(clippy::print_stdout)]
fn owner_that_gets_killed() {
    let dir = std::env::var(OWNER_VARIABLE).expect("run by the other test");
    let cluster = Cluster::start(Nodes::One, dir).expect("a cluster");
    println!("\nnode {}", cluster.node(1).pid().expect("running"));
    thread::sleep(END_LIMIT);
}
