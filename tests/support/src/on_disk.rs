//! The bytes that a store has on the disk, read without harm to it.

use std::fs::File;
use std::io::Read as _;
use std::mem::ManuallyDrop;
use std::path::Path;

/// A file's bytes, or none without the file.
///
/// The file stays open until the process ends. A process that closes any handle of a file loses all its POSIX locks on that
/// file (<https://www.sqlite.org/howtocorrupt.html>, 2.2). A store of this process that is still being closed would go on
/// without them, while another process reads what it is moving.
pub fn read(path: &Path) -> Vec<u8> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let mut bytes = Vec::new();
    ManuallyDrop::new(file).read_to_end(&mut bytes).expect("readable");
    bytes
}

/// Whether a text is anywhere in the file of a store or in those that SQLite has beside it. The log is read first: what a
/// store that is being closed moves to the file is in one of them.
pub fn holds(path: &Path, text: &str) -> bool {
    ["-wal", "-journal", "-shm", ""].iter().any(|suffix| {
        let bytes = read(format!("{}{suffix}", path.display()).as_ref());
        assert!(!suffix.is_empty() || bytes.starts_with(b"SQLite format 3"), "a store");
        has(&bytes, text)
    })
}

/// Whether a text is in these bytes.
pub fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
