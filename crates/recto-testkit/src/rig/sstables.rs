//! Functions that inspect, copy and restore the files in which a node stores a Cassandra table.

use std::fs;
use std::path::{Path, PathBuf};

use super::RigError;
use super::node::{NODETOOL_TIMEOUT, Node};
use super::process::run;

/// Heading before the list of tombstone counts in the output of Cassandra's `sstablemetadata`.
const TOMBSTONES: &str = "Estimated tombstone drop times";
/// Heading after the list of tombstone counts.
const PERCENTILES: &str = "Percentiles";

impl Node {
    /// Returns the number of tombstones in the files of a table, according to their metadata. Cells
    /// with a TTL count as well. Tombstones in memory do not count, so flush the table first.
    pub fn tombstones(&self, keyspace: &str, table: &str) -> Result<u64, RigError> {
        let files = self.files(keyspace, table)?;
        let data: Vec<_> = files.iter().filter(|file| is_data(file)).collect();
        if data.is_empty() {
            return Ok(0);
        }
        let mut command = self.tool("org.apache.cassandra.tools.SSTableMetadataViewer")?;
        let output = run(command.args(data), NODETOOL_TIMEOUT)?;
        Ok(listed(&output.stdout))
    }

    /// Copies the files of a table into a new subfolder of `folder`.
    pub fn keep_files(&self, keyspace: &str, table: &str, folder: &Path) -> Result<(), RigError> {
        let folder = kept(keyspace, table, folder);
        fs::create_dir_all(&folder).map_err(RigError::io("make", &folder))?;
        for file in self.files(keyspace, table)? {
            let name = file.file_name().unwrap_or_default();
            fs::copy(&file, folder.join(name)).map_err(RigError::io("copy", &file))?;
        }
        Ok(())
    }

    /// Imports the [copied](Self::keep_files) files of a table, in addition to the present data.
    /// The import removes the copies.
    pub fn put_files_back(&self, keyspace: &str, table: &str, folder: &Path) -> Result<(), RigError> {
        let folder = kept(keyspace, table, folder).display().to_string();
        self.nodetool(&["import", keyspace, table, &folder]).map(drop)
    }

    /// Returns all files of a table; empty if the table does not exist.
    fn files(&self, keyspace: &str, table: &str) -> Result<Vec<PathBuf>, RigError> {
        let keyspace = self.dir().join("data").join(keyspace);
        let is_of_table = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.rsplit_once('-').is_some_and(|(name, _)| name == table)
        };
        let mut files = Vec::new();
        for folder in entries(&keyspace)?.into_iter().filter(is_of_table) {
            files.extend(entries(&folder)?.into_iter().filter(|entry| entry.is_file()));
        }
        Ok(files)
    }
}

/// Returns the subfolder of `folder` for the copied files of a table. `nodetool import` requires
/// its name.
fn kept(keyspace: &str, table: &str, folder: &Path) -> PathBuf {
    folder.join(keyspace).join(table)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, RigError> {
    let entries = fs::read_dir(folder).map_err(RigError::io("read", folder))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths
        .collect::<Result<_, _>>()
        .map_err(RigError::io("read", folder))
}

fn is_data(file: &Path) -> bool {
    file.to_string_lossy().ends_with("-Data.db")
}

/// Returns the sum of the tombstone counts of all files. Example of a line: `1795382100 (11/22/2026
/// 21:15:00) | 3 (  2) OOO`.
fn listed(printed: &str) -> u64 {
    let lists = printed.split(TOMBSTONES).skip(1);
    let lines = lists.flat_map(|list| list.split(PERCENTILES).next().unwrap_or_default().lines());
    let counts = lines.filter_map(|line| {
        let (_, counts) = line.split_once('|')?;
        counts.split_whitespace().next()?.parse::<u64>().ok()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_files_and_times() {
        let of_one = "SSTable Level: 0\nEstimated tombstone drop times: \n   Drop Time | Count  (%)  Histogram \n   \
                      1795382100 (11/22/2026 21:15:00) |     3 (  2) OOO\n   1795382160 (11/22/2026 21:16:00) |    24 ( 16) O\n   \
                      Percentiles\n   50th      1996099046 (04/02/2033 23:57:26)\nPartition Size: \n   Size | Count\n   24 (24 B)    |     1 (  0) \n";
        let of_none = "Estimated tombstone drop times: \n   Drop Time | Count  (%)  Histogram \n   Percentiles\n   50th      0\n";
        assert_eq!(listed(of_one), 27);
        assert_eq!(listed(&format!("{of_one}{of_none}{of_one}")), 54);
        assert_eq!(listed(of_none), 0);
    }
}
