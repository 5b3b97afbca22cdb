//! Cassandra node of a cluster: its process, and the operations and faults that tests apply to it.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::artefacts::Artefacts;
use super::membership::{self, Member};
use super::process::{Output, is_alive, is_gone, is_stopped, run, signal, tail, wait_until};
use super::{HEAP_VARIABLE, RigError, block};

/// Maximum time from the start of a node to its first answer. It is long because compilers may run
/// at the same time.
pub const START_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time in which a node ends after SIGTERM. The node first writes its data to disk
/// (drains).
pub const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time in which a process ends after SIGKILL.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the log of a node is read for the members of its cluster.
pub(super) const MEMBERS_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum time for a nodetool command. Commands on test data need much less.
pub const NODETOOL_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time for a node's answer to a small request.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

const HEAP_OF_ONE: &str = "1G";
const HEAP_OF_MANY: &str = "256M";
const LOG_EXCERPT_BYTES: usize = 3000;
/// OPTIONS request of version 4 of CQL's native protocol, which every Cassandra answers.
const OPTIONS_REQUEST: [u8; 9] = [0x04, 0, 0, 0, 0x05, 0, 0, 0, 0];
const RESPONSE_VERSION: u8 = 0x84;
const SUPPORTED_OPCODE: u8 = 0x06;
const LOGBACK: &str = r#"<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>${cassandra.storagedir}/system.log</file>
    <encoder><pattern>%-5level %date{ISO8601} [%thread] %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <logger name="org.apache.cassandra.service.StorageService" level="DEBUG"/>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"#;

/// Options of a node that can differ from the defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct Peculiarities {
    /// Size of the Java heap, as for Java's option `-Xmx`; `None`: the default.
    pub(super) heap: Option<String>,
    /// True if the process gets a higher priority than others, as far as the user may set it.
    pub(super) is_urgent: bool,
    /// Additional options for Java.
    pub(super) java_options: &'static [&'static str],
    /// Name of the node's data center; `None`: the default data center.
    pub(super) datacenter: Option<String>,
    /// Additional lines for `cassandra.yaml`, which replace default lines.
    pub(super) settings: String,
    /// True if the node accepts CQL only over TLS.
    pub(super) is_encrypted: bool,
}

/// Cassandra node of a cluster. Several threads can use it.
#[derive(Debug)]
pub struct Node {
    number: usize,
    of: usize,
    block: u8,
    dir: PathBuf,
    artefacts: Arc<Artefacts>,
    peculiarities: Peculiarities,
    /// Process of the node, if this process started it; otherwise `None`.
    child: Mutex<Option<Child>>,
}

impl Node {
    /// Returns a handle to the node with the index `number` (from 1) of `of` nodes in the folder
    /// `cluster`. The node need not run.
    pub(super) fn new(
        cluster: &Path,
        block: u8,
        number: usize,
        of: usize,
        artefacts: Arc<Artefacts>,
        peculiarities: Peculiarities,
    ) -> Self {
        let dir = cluster.join(format!("node{number}"));
        Self {
            number,
            of,
            block,
            dir,
            artefacts,
            peculiarities,
            child: Mutex::new(None),
        }
    }

    /// Sets the release that the node runs from its next start on.
    pub(super) fn run_with(&mut self, artefacts: Arc<Artefacts>) {
        self.artefacts = artefacts;
    }

    /// Returns the index of the node in its cluster, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the address at which the node serves CQL clients.
    pub fn address(&self) -> SocketAddr {
        block::cql_address(self.block, self.number)
    }

    /// Returns the folder of the node, which has its data, commit log, `cassandra.yaml` and
    /// `system.log`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the node's log.
    pub fn log(&self) -> PathBuf {
        self.dir.join("system.log")
    }

    /// Returns the process id; `None` if the node does not run. A paused node counts as running.
    pub fn pid(&self) -> Option<u32> {
        let mut child = self.child();
        if let Some(own) = child.as_mut() {
            // Do not check the arguments of the own child, because they are not visible directly
            // after its start.
            if matches!(own.try_wait(), Ok(None)) {
                return Some(own.id());
            }
            *child = None;
        }
        self.last_pid().filter(|pid| is_alive(*pid, &self.mark()))
    }

    /// Returns whether the node answers a small CQL request within [`ANSWER_TIMEOUT`]. A paused
    /// node does not answer.
    pub fn answers(&self) -> bool {
        if self.peculiarities.is_encrypted {
            return refuses_plain_text(self.address(), ANSWER_TIMEOUT);
        }
        answers_cql(self.address(), ANSWER_TIMEOUT)
    }

    /// Starts the node, unless it runs, and waits until it answers. The node keeps the data of its
    /// last run.
    pub fn start(&self) -> Result<(), RigError> {
        self.launch()?;
        self.wait_for_answer()
    }

    /// Ends the node by SIGTERM, as an administrator would, and waits for its end. The node first
    /// writes its data to disk, which takes about 6 s.
    pub fn stop(&self) -> Result<(), RigError> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        self.wait_until_gone("stopping", STOP_TIMEOUT)
    }

    /// Ends the node at once by SIGKILL, even if it is paused, and waits for its end.
    pub fn kill(&self) -> Result<(), RigError> {
        self.signal(Signal::KILL)?;
        self.wait_until_gone("killing", KILL_TIMEOUT)
    }

    /// Pauses the node by SIGSTOP: it answers nothing, but its connections stay open. Waits until
    /// all of its threads are stopped.
    pub fn pause(&self) -> Result<(), RigError> {
        let Some(pid) = self.pid() else { return Ok(()) };
        signal(pid, Signal::STOP)?;
        if wait_until(KILL_TIMEOUT, || is_stopped(pid)) {
            return Ok(());
        }
        Err(RigError::TookTooLong {
            what: format!("pausing node {} (process {pid})", self.number),
            limit: KILL_TIMEOUT,
        })
    }

    /// Resumes a paused node, by SIGCONT.
    pub fn resume(&self) -> Result<(), RigError> {
        self.signal(Signal::CONT)
    }

    /// Calls nodetool for this node, with arguments such as `&["flush", "my_keyspace"]`. Returns an
    /// error if the exit code is not 0.
    pub fn nodetool(&self, arguments: &[&str]) -> Result<Output, RigError> {
        let port = block::jmx_port(self.block, self.number).to_string();
        let mut command = self.tool("org.apache.cassandra.tools.NodeTool")?;
        command.args(["-h", "127.0.0.1", "-p", &port]);
        run(command.args(arguments), NODETOOL_TIMEOUT)
    }

    /// Returns a command that runs one of Cassandra's tools, the Java class `class`, with this
    /// node's settings.
    pub(super) fn tool(&self, class: &str) -> Result<Command, RigError> {
        let home = self.dir.join("home");
        fs::create_dir_all(&home).map_err(RigError::io("make", &home))?;
        let silent = home.join("silent.xml");
        if !silent.exists() {
            fs::write(&silent, "<configuration/>").map_err(RigError::io("write", &silent))?;
        }
        let mut command = self.artefacts.java();
        command.args([
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
        ]);
        command.arg(format!("-Duser.home={}", home.display()));
        command.arg(format!("-Dlogback.configurationFile={}", file_url(&silent)));
        let config = self.dir.join("cassandra.yaml");
        command.arg(format!("-Dcassandra.config={}", file_url(&config)));
        command.arg(class);
        Ok(command)
    }

    /// Returns the members of the cluster, as this node sees them.
    pub fn members(&self) -> Result<Vec<Member>, RigError> {
        let path = self.log();
        let log = fs::read(&path).map_err(RigError::io("read", &path))?;
        let log = String::from_utf8_lossy(&log);
        Ok(membership::members(&log, self.address().ip()))
    }

    /// Waits until this node regards `other` as alive (`up` is true) or as dead, for at most
    /// `limit`.
    ///
    /// A node notices after 10–20 s that another one was killed, and later that it was paused.
    pub fn wait_until_sees(&self, other: &Self, up: bool, limit: Duration) -> Result<(), RigError> {
        let wanted = Member {
            ip: other.address().ip(),
            up,
            normal: true,
        };
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if self.members()?.contains(&wanted) {
                return Ok(());
            }
            thread::sleep(MEMBERS_INTERVAL);
        }
        let state = if up { "up" } else { "down" };
        Err(RigError::TookTooLong {
            what: format!("node {} seeing node {} {state}", self.number, other.number),
            limit,
        })
    }

    /// Writes the class archive (for a faster start of Java) from the classes that this node has
    /// loaded, unless it exists.
    pub(super) fn archive_classes(&self) -> Result<(), RigError> {
        self.artefacts.archive_classes(&self.dir)
    }

    /// Starts the process of the node, unless it runs, and does not wait for its answer.
    pub(super) fn launch(&self) -> Result<(), RigError> {
        if self.pid().is_some() {
            return Ok(());
        }
        let scratch = self.dir.join("tmp");
        // Remove the folder, in which a killed process has left unpacked libraries.
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(RigError::io("remove", &scratch))?;
        }
        fs::create_dir_all(&scratch).map_err(RigError::io("make", &scratch))?;
        let config = self.dir.join("cassandra.yaml");
        fs::write(&config, self.settings()).map_err(RigError::io("write", &config))?;
        let datacenter = self.peculiarities.datacenter.as_deref().unwrap_or_default();
        let rack = self.rack_file();
        fs::write(&rack, format!("dc={datacenter}\nrack=rack1\n")).map_err(RigError::io("write", &rack))?;
        let logback = self.dir.join("logback.xml");
        fs::write(&logback, LOGBACK).map_err(RigError::io("write", &logback))?;
        let printed = self.dir.join("out.log");
        let out = File::create(&printed).map_err(RigError::io("make", &printed))?;
        let err = out.try_clone().map_err(RigError::io("share", &printed))?;

        let mut command = if self.peculiarities.is_urgent {
            self.artefacts.urgent_java()
        } else {
            self.artefacts.java()
        };
        self.add_options(&mut command, &config, &logback, &scratch);
        command.arg("org.apache.cassandra.service.CassandraDaemon");
        command
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        // Use a separate process group, so that Ctrl-C reaches only the test process, which then
        // ends the node.
        command.process_group(0);
        let spawned = command.spawn();
        let started = spawned.map_err(|source| RigError::Io {
            doing: "start java".to_owned(),
            source,
        })?;
        let file = self.pid_file();
        let written = fs::write(&file, started.id().to_string()).map_err(RigError::io("write", &file));
        *self.child() = Some(started);
        written
    }

    fn add_options(&self, command: &mut Command, config: &Path, logback: &Path, scratch: &Path) {
        let heap_default = if self.of == 1 { HEAP_OF_ONE } else { HEAP_OF_MANY };
        let own = self.peculiarities.heap.as_deref();
        let heap = env::var(HEAP_VARIABLE).unwrap_or_else(|_| own.unwrap_or(heap_default).to_owned());
        command.args([format!("-Xms{heap}"), format!("-Xmx{heap}")]);
        command.args([
            "-Xss512k",
            "-XX:+UseSerialGC",
            "-XX:MaxDirectMemorySize=128M",
            "-XX:-UsePerfData",
        ]);
        // Nodes run only for seconds or minutes, so fast compilation matters more than optimized
        // code.
        command.arg("-XX:TieredStopAtLevel=1");
        if self.of > 1 {
            // Let a node that missed a schema change fetch the schema after seconds, not after a
            // minute.
            command.args([
                "-Dcassandra.schema_pull_interval_ms=3000",
                "-Dcassandra.migration_delay_ms=1000",
            ]);
        }
        command.args(self.peculiarities.java_options);
        command.arg(self.artefacts.agent_option());
        command.args(self.artefacts.list_option(&self.dir));
        command.arg(self.mark());
        command.arg(format!("-Dcassandra.config={}", file_url(config)));
        command.arg(format!(
            "-Dcassandra-rackdc.properties={}",
            file_url(&self.rack_file())
        ));
        command.arg(format!("-Dlogback.configurationFile={}", file_url(logback)));
        command.arg(format!("-Djava.io.tmpdir={}", scratch.display()));
        command.arg(format!(
            "-Dcassandra.jmx.local.port={}",
            block::jmx_port(self.block, self.number)
        ));
        command.args([
            "-Dcassandra-foreground=yes",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.ring_delay_ms=1000",
            "-Dcassandra.superuser_setup_delay_ms=0",
            // A worker thread sets its name for each task by default, which costs a system call.
            "-Dcassandra.set_sep_thread_name=false",
        ]);
    }

    /// Waits until the started node answers, at most [`START_TIMEOUT`].
    pub(super) fn wait_for_answer(&self) -> Result<(), RigError> {
        let mut alive = true;
        let answered = wait_until(START_TIMEOUT, || {
            alive = self.pid().is_some();
            !alive || self.answers()
        });
        if !alive {
            return Err(RigError::NodeEnded {
                node: self.number,
                log: self.log(),
                excerpt: self.excerpt(),
            });
        }
        if answered {
            return Ok(());
        }
        Err(RigError::NotAnswering {
            address: self.address().to_string(),
            waited: START_TIMEOUT,
        })
    }

    fn excerpt(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let printed = fs::read_to_string(self.dir.join("out.log")).unwrap_or_default();
        let errors = log.find("\nERROR").map_or("", |at| &log[at + 1..]);
        let errors = errors.lines().take(12).collect::<Vec<_>>().join("\n");
        tail(
            &format!("{}\n{errors}", tail(&printed, LOG_EXCERPT_BYTES / 2)),
            LOG_EXCERPT_BYTES,
        )
    }

    fn wait_until_gone(&self, verb: &str, limit: Duration) -> Result<(), RigError> {
        let Some(pid) = self.last_pid() else { return Ok(()) };
        let mark = self.mark();
        let gone = wait_until(limit, || self.pid().is_none() && is_gone(pid, &mark));
        if gone {
            return Ok(());
        }
        Err(RigError::TookTooLong {
            what: format!("{verb} node {} (process {pid})", self.number),
            limit,
        })
    }

    fn signal(&self, which: Signal) -> Result<(), RigError> {
        self.pid().map_or(Ok(()), |pid| signal(pid, which))
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }

    /// Returns the path of the file with the data center and the rack, which Cassandra's
    /// `GossipingPropertyFileSnitch` reads.
    fn rack_file(&self) -> PathBuf {
        self.dir.join("cassandra-rackdc.properties")
    }

    fn last_pid(&self) -> Option<u32> {
        fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()
    }

    /// Returns the command-line argument by which this process and the script `watch.sh` recognize
    /// the process of this node.
    fn mark(&self) -> String {
        format!("-Dcassandra.storagedir={}", self.dir.display())
    }

    /// Returns the content of `cassandra.yaml`: the default settings, unless the options of the
    /// cluster replace them.
    fn settings(&self) -> String {
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        let more = &self.peculiarities.settings;
        let made: Vec<String> = more.lines().map(name).collect();
        let usual = self.usual_settings();
        let kept = usual.lines().filter(|line| !made.contains(&name(line)));
        let known = kept.filter_map(|line| self.artefacts.version.setting(line));
        let all = known.chain(more.lines().map(str::to_owned));
        all.map(|line| format!("{line}\n")).collect()
    }

    fn usual_settings(&self) -> String {
        let ring = 1_i128 << 64;
        let token = i128::from(i64::MIN) + ring / self.of as i128 * (self.number as i128 - 1);
        let ip = block::ip(self.block, self.number);
        // Make all nodes seeds. Another node starts only if a seed answers within the ring delay,
        // which is short here.
        let seeds: Vec<String> = (1..=self.of)
            .map(|node| block::ip(self.block, node).to_string())
            .collect();
        let seeds = seeds.join(",");
        let snitch = match self.peculiarities.datacenter {
            Some(_) => "GossipingPropertyFileSnitch",
            None => "SimpleSnitch",
        };
        let [data, commitlog, saved_caches, hints, cdc_raw] =
            ["data", "commitlog", "saved_caches", "hints", "cdc_raw"]
                .map(|name| quoted(&self.dir.join(name).display().to_string()));
        format!(
            r#"cluster_name: recto-test
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
initial_token: "{token}"
auto_bootstrap: false
listen_address: {ip}
rpc_address: {ip}
endpoint_snitch: {snitch}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "{seeds}"}}]
data_file_directories: [{data}]
commitlog_directory: {commitlog}
saved_caches_directory: {saved_caches}
hints_directory: {hints}
cdc_raw_directory: {cdc_raw}
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 8MiB
commitlog_total_space: 128MiB
memtable_heap_space: 48MiB
memtable_offheap_space: 48MiB
key_cache_size: 4MiB
counter_cache_size: 1MiB
networking_cache_size: 16MiB
concurrent_reads: 8
concurrent_writes: 8
concurrent_compactors: 1
auto_snapshot: false
truncate_request_timeout: 10s
prepared_statements_cache_size: 64MiB
paxos_variant: v2
"#
        )
    }
}

/// Returns whether Cassandra at an address answers an OPTIONS request. Connecting, writing and
/// reading may each take `limit`.
pub(super) fn answers_cql(address: SocketAddr, limit: Duration) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        stream.write_all(&OPTIONS_REQUEST)?;
        let mut header = [0; OPTIONS_REQUEST.len()];
        stream.read_exact(&mut header)?;
        Ok(header[0] == RESPONSE_VERSION && header[4] == SUPPORTED_OPCODE)
    };
    ask().unwrap_or(false)
}

/// Returns whether a server rejects an unencrypted request, as a node that requires TLS does.
fn refuses_plain_text(address: SocketAddr, limit: Duration) -> bool {
    let ask = || -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        stream.write_all(&OPTIONS_REQUEST)?;
        // A node that requires TLS answers plain text with a TLS alert, or closes the connection.
        stream.read(&mut [0; OPTIONS_REQUEST.len()]).map(drop)
    };
    match ask() {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// Returns a text as a double-quoted string of YAML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns a path as a `file:` URL, which Cassandra and logback require.
fn file_url(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                url.push(char::from(*byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(url, "%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_paths() {
        assert_eq!(file_url(Path::new("/a b/ü#")), "file:///a%20b/%C3%BC%23");
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}
