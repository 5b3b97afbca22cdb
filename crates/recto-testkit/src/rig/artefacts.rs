//! Search for the installed Java, and for Cassandra's jars, which Maven downloads once.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::class_archive::ClassArchive;
use super::process::{run, wait_until};
use super::version::Version;
use super::{RigError, base_dir};

const POM: &str = include_str!("pom.xml");
/// Fixed version of Maven's plugin. Without it, Maven uses the version with which Maven was built.
const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
const JAVA_MAJOR: &str = "17";
const NODE_NICENESS: &str = "-10";
const FETCH_TIMEOUT: Duration = Duration::from_secs(300);
const JAVA_VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Packages of Java 17 that Cassandra uses although their modules do not export them.
const EXPORTS: [&str; 9] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];
/// Packages of Java 17 that Cassandra uses by reflection although their modules do not open
/// them.
const OPENS: [&str; 19] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.rmi/sun.rmi.transport.tcp",
    "jdk.management/com.sun.management.internal",
];

/// Installed Java that can run Cassandra, and the downloaded jars of Cassandra.
#[derive(Debug)]
pub(super) struct Artefacts {
    pub(super) version: Version,
    java: PathBuf,
    lib: PathBuf,
    /// Jar of the Java agent with which Cassandra measures the memory of objects. Java must load it
    /// before Cassandra.
    agent: PathBuf,
    classes: ClassArchive,
}

impl Artefacts {
    /// Finds Java and the jars of this version of Cassandra, and downloads missing jars.
    pub(super) fn ready(version: Version) -> Result<Self, RigError> {
        let (java, java_version) = find_java()?;
        let lib = fetched(&base_dir()?, version)?;
        let agent = find_agent(&lib)?;
        let classes = ClassArchive::new(&lib, &java_version);
        Ok(Self {
            version,
            java,
            lib,
            agent,
            classes,
        })
    }

    /// Returns a `java` command with Cassandra's module options and class path. The caller adds
    /// further options, the main class and its arguments.
    pub(super) fn java(&self) -> Command {
        self.configure(Command::new(&self.java))
    }

    /// Returns the `java` command with a higher priority, which only root can set. Otherwise, a
    /// node on a busy machine can stop for seconds, and drivers would regard it as dead.
    pub(super) fn urgent_java(&self) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", NODE_NICENESS]).arg(&self.java);
        self.configure(command)
    }

    fn configure(&self, mut command: Command) -> Command {
        command.arg("-Djdk.attach.allowAttachSelf=true");
        command.args(EXPORTS.map(|name| format!("--add-exports={name}=ALL-UNNAMED")));
        command.args(OPENS.map(|name| format!("--add-opens={name}=ALL-UNNAMED")));
        command.args(self.classes.option());
        command.arg("-cp").arg(self.lib.join("*"));
        // Remove Java options from the environment: they may be unsuitable, and Java would print
        // them.
        command
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("JDK_JAVA_OPTIONS")
            .env_remove("_JAVA_OPTIONS");
        command
    }

    /// Returns the option by which a node in `dir` records its loaded classes; `None` if the class
    /// archive exists.
    pub(super) fn list_option(&self, dir: &Path) -> Option<OsString> {
        self.classes.list_option(dir)
    }

    /// Writes the class archive (for a faster start of Java) from the classes that a node in `dir`
    /// has loaded, unless the archive exists. The node must answer requests.
    pub(super) fn archive_classes(&self, dir: &Path) -> Result<(), RigError> {
        self.classes.write(self.java(), dir)
    }

    /// Returns the option that loads the agent that measures the memory of objects.
    pub(super) fn agent_option(&self) -> OsString {
        let mut option = OsString::from("-javaagent:");
        option.push(&self.agent);
        option
    }
}

/// Returns the path and the version of the installed Java, or an error if Cassandra does not run on
/// this version.
fn find_java() -> Result<(PathBuf, String), RigError> {
    let java = env::var_os("JAVA_HOME")
        .filter(|home| !home.is_empty())
        .map_or_else(|| PathBuf::from("java"), |home| Path::new(&home).join("bin/java"));
    let said = run(Command::new(&java).arg("-version"), JAVA_VERSION_TIMEOUT)?.stderr;
    // Search for the line `openjdk version "17.0.15" 2025-04-15`. Other lines, such as `Picked up
    // …`, may precede it.
    let version = said
        .lines()
        .find_map(|line| line.split_once(" version \"")?.1.split('"').next());
    match version {
        Some(version) if version.split(['.', '-', '+']).next() == Some(JAVA_MAJOR) => {
            Ok((java, version.to_owned()))
        }
        found => Err(RigError::JavaVersion {
            java,
            found: found.unwrap_or("unknown").to_owned(),
        }),
    }
}

/// Returns the folder with Cassandra's jars, and downloads them if necessary. The download uses a
/// temporary folder, which is renamed when the download is complete.
fn fetched(base: &Path, version: Version) -> Result<PathBuf, RigError> {
    let lib = base.join(format!("lib-{version}"));
    let mark = lib.join(".complete");
    if mark.exists() {
        return Ok(lib);
    }
    fs::create_dir_all(base).map_err(RigError::io("make", base))?;
    let lock_path = base.join("lib.lock");
    let lock = File::create(&lock_path).map_err(RigError::io("make", &lock_path))?;
    if !wait_until(FETCH_TIMEOUT, || lock.try_lock().is_ok()) {
        let what = format!(
            "waiting for another process to fetch Cassandra ({})",
            lock_path.display()
        );
        return Err(RigError::TookTooLong {
            what,
            limit: FETCH_TIMEOUT,
        });
    }
    if mark.exists() {
        return Ok(lib);
    }
    let partial = base.join(format!("lib-{version}.partial"));
    for left_over in [&lib, &partial] {
        if left_over.exists() {
            fs::remove_dir_all(left_over).map_err(RigError::io("remove", left_over))?;
        }
    }
    fs::create_dir_all(&partial).map_err(RigError::io("make", &partial))?;
    let pom = base.join("pom.xml");
    fs::write(&pom, POM).map_err(RigError::io("write", &pom))?;
    let mut maven = Command::new("mvn");
    maven
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg(COPY_GOAL)
        .arg("-DincludeScope=runtime")
        .arg(format!("-Dcassandra.version={version}"));
    let mut target = OsString::from("-DoutputDirectory=");
    target.push(&partial);
    run(maven.arg(target), FETCH_TIMEOUT).map_err(|error| match error {
        missing @ RigError::Missing { .. } => missing,
        why => RigError::NotFetched { why: Box::new(why) },
    })?;
    let mark = partial.join(".complete");
    fs::write(&mark, "").map_err(RigError::io("write", &mark))?;
    fs::rename(&partial, &lib).map_err(RigError::io("name", &lib))?;
    Ok(lib)
}

fn find_agent(lib: &Path) -> Result<PathBuf, RigError> {
    let entries = fs::read_dir(lib).map_err(RigError::io("list", lib))?;
    let is_agent = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| {
                name.starts_with("jamm-") && Path::new(name).extension().is_some_and(|end| end == "jar")
            })
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(is_agent)
        .ok_or(RigError::BadState {
            path: lib.to_owned(),
            what: "the jar of jamm",
        })
}
