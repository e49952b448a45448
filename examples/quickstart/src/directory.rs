//! Where the service's store is: a directory that goes with the run, or one to keep.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Problem;

const FILE: &str = "vendor-calls.db";

pub enum Directory {
    /// Removed when it is dropped.
    Passing(TempDir),
    Kept(PathBuf),
}

impl Directory {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// Also if there is a store to keep already: another run's records would be taken for this one's.
    pub fn open(keep: Option<&Path>) -> Result<Directory, Problem> {
        let Some(keep) = keep else { return Ok(Directory::Passing(tempfile::tempdir()?)) };
        std::fs::create_dir_all(keep).map_err(|error| format!("--keep {}: {error}", keep.display()))?;
        let directory = Directory::Kept(keep.to_owned());
        let file = directory.file();
        if file.try_exists()? {
            return Err(format!("{} is there already: name another folder", file.display()).into());
        }
        Ok(directory)
    }

    pub fn file(&self) -> PathBuf {
        match self {
            Directory::Passing(directory) => directory.path().join(FILE),
            Directory::Kept(directory) => directory.join(FILE),
        }
    }

    /// Removes it, if it is not to be kept.
    pub fn close(self) -> Result<(), Problem> {
        match self {
            Directory::Passing(directory) => Ok(directory.close()?),
            Directory::Kept(_) => Ok(()),
        }
    }
}
