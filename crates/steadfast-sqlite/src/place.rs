//! Check that the file at the store's path is still the one that is open.
//!
//! A file that is deleted, or replaced by a copy, stays open: everything is written to it and acknowledged, and
//! no process finds it again. Another process opens the new file meanwhile, and does not know which calls were
//! sent. So the path is checked at each take and each purge, which recovery does all the time and no call does;
//! and from then on nothing is acknowledged.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use steadfast_core::internal::guard::Guard;
use steadfast_core::store::{StoreError, StoreErrorKind};

/// Identity of the file that was opened.
#[derive(Debug)]
pub(super) struct OpenedFile {
    /// `None` where the system has no inodes, or did not return one.
    file: Option<DeviceAndInode>,
    was_replaced: AtomicBool,
}

/// Device and inode.
type DeviceAndInode = (u64, u64);

impl OpenedFile {
    pub(super) fn of(path: &Path) -> OpenedFile {
        OpenedFile { file: identity(path).ok().flatten(), was_replaced: AtomicBool::new(false) }
    }

    /// Fails once [`look`](OpenedFile::look) has found another file. Makes no system call.
    pub(super) fn check(&self, path: &Path) -> Result<(), StoreError> {
        if self.was_replaced.load(Ordering::Relaxed) { Err(replaced(path)) } else { Ok(()) }
    }

    /// Compares the file at the path. Where a permission is missing to compare, it counts as the same file.
    pub(super) fn look(&self, path: &Path) -> Result<(), StoreError> {
        let is_replaced = match (self.file, identity(path)) {
            (Some(opened), Ok(Some(there))) => Guard::FileReplaced.keeps(opened != there),
            (Some(_), Err(error)) => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        if is_replaced && !self.was_replaced.swap(true, Ordering::Relaxed) {
            tracing::error!(path = %path.display(), "the store's file was deleted or replaced while it was open");
        }
        self.check(path)
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> std::io::Result<Option<DeviceAndInode>> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|file| Some((file.dev(), file.ino())))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> std::io::Result<Option<DeviceAndInode>> {
    Ok(None)
}

fn replaced(path: &Path) -> StoreError {
    let problem = format!(
        "{} was deleted or replaced while it was open; put the file back and restart the service",
        path.display()
    );
    StoreError::new(problem).of_kind(StoreErrorKind::Replaced)
}
