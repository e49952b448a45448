//! A directory for a test's files, in memory where the machine has a file system for that. The data that a killed
//! process wrote is there as on a disk, and no test waits for one. The remains after a power cut are another proof's,
//! which models its disk.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Linux has it. A container may give it 64 MiB, which the files of a test fill.
const IN_MEMORY: &str = "/dev/shm";
const ROOM_KIB: u64 = 2 * 1024 * 1024;

/// A new directory, removed with what is given.
pub fn directory() -> TempDir {
    named("")
}

/// The same, its name beginning so.
pub fn named(prefix: &str) -> TempDir {
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(prefix);
    place().map_or_else(|| made.tempdir(), |place| made.tempdir_in(place)).expect("a directory")
}

/// Where there is room in memory; `None` is the machine's place for temporary files.
pub fn place() -> Option<&'static Path> {
    static PLACE: OnceLock<bool> = OnceLock::new();
    PLACE.get_or_init(|| room_kib().is_some_and(|room| room >= ROOM_KIB)).then_some(Path::new(IN_MEMORY))
}

/// The room that is free there, as `df` of POSIX says: the fourth column of its second line.
fn room_kib() -> Option<u64> {
    let said = Command::new("df").args(["-Pk", IN_MEMORY]).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}
