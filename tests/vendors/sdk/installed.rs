//! Client libraries below `target/sdk`, put there once for each lock file.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries of one language.
#[derive(Clone, Copy, Debug)]
pub enum Library {
    Python,
    Node,
}

impl Library {
    /// The script, ready to run; `None` if it cannot run here, which was then said.
    pub fn command(self, script: &str) -> Option<Command> {
        let place = match self.place() {
            Ok(place) => place,
            Err(why) => {
                assert!(std::env::var_os("STEADFAST_NO_SKIP").is_none(), "{why}");
                let _ = writeln!(std::io::stderr(), "skipped {script}: {why}");
                return None;
            }
        };
        let script = sources().join(script);
        let mut command = match self {
            Library::Python => Command::new(place.join("bin/python")),
            Library::Node => {
                // Modules are looked for beside the script, so it runs where they are.
                let beside = place.join(script.file_name().expect("a file"));
                fs::copy(&script, &beside).expect("below target");
                let mut command = Command::new("node");
                command.arg(&beside).current_dir(&place);
                return Some(command);
            }
        };
        command.arg(script);
        Some(command)
    }

    /// Where the libraries are; they are installed if they are not there yet.
    fn place(self) -> Result<PathBuf, String> {
        let (name, lock) = match self {
            Library::Python => ("python", "requirements.txt"),
            Library::Node => ("node", "package-lock.json"),
        };
        let lock = sources().join(lock);
        let mut hasher = DefaultHasher::new();
        fs::read(&lock).expect("a lock file").hash(&mut hasher);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target").join("sdk");
        fs::create_dir_all(&root).map_err(|error| error.to_string())?;
        let place = root.join(format!("{name}-{:016x}", hasher.finish()));
        // One test installs; the others wait for it.
        let turn = File::create(place.with_extension("lock")).map_err(|error| error.to_string())?;
        turn.lock().map_err(|error| error.to_string())?;
        if !place.join("complete").exists() {
            let _ = fs::remove_dir_all(&place);
            self.install(&place, &lock)?;
            File::create(place.join("complete")).map_err(|error| error.to_string())?;
        }
        Ok(place)
    }

    fn install(self, place: &Path, lock: &Path) -> Result<(), String> {
        match self {
            Library::Python => {
                run(Command::new("python3").args(["-m", "venv"]).arg(place), "a venv by python3")?;
                let mut pip = Command::new(place.join("bin/python"));
                pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
                run(pip.arg("-r").arg(lock), "the libraries from PyPI")
            }
            Library::Node => {
                fs::create_dir_all(place).map_err(|error| error.to_string())?;
                for file in ["package.json", "package-lock.json"] {
                    fs::copy(sources().join(file), place.join(file)).map_err(|error| error.to_string())?;
                }
                let mut npm = Command::new("npm");
                npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(place);
                run(&mut npm, "the libraries from npm")
            }
        }
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}

fn run(command: &mut Command, what: &str) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("{what}: {}", said.lines().last().unwrap_or_default()))
        }
        Err(error) => Err(format!("{what}: {error}")),
    }
}
