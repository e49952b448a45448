//! A private Postgres from this machine's binaries: in a directory of its own, on a socket in it, gone when it is
//! dropped.
//!
//! A service has none of this: it is given the URL of its database.
//!
//! The server stops by itself. A shell beside it reads from a pipe that this process holds. When the pipe closes, also
//! because this process was killed, the shell stops the server and removes the directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Problem;

/// The advice for a machine without it.
pub const INSTALL: &str = "this machine has no Postgres to start (no initdb). Install it (Debian and Ubuntu: \
                           apt install postgresql; macOS: brew install postgresql), or name a server: \
                           cargo run -p outbox -- postgres://user@localhost/database?sslmode=disable";

/// Where Debian's packages have the programs of each version, which are not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A server that runs.
pub struct Server {
    directory: PathBuf,
    /// Reads from the pipe that is its input.
    watcher: Child,
}

impl Server {
    /// Takes about two seconds.
    pub fn start() -> Result<Server, Problem> {
        let programs = programs(Path::new(DEBIAN), std::env::var_os("PATH").as_deref()).ok_or(INSTALL)?;
        let user = other_user();
        let directory = tempfile::Builder::new().prefix("outbox-").tempdir()?;
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(&directory, Some(user), Some(group))?;
        }
        if socket_of(directory.path()).len() > SOCKET_BYTES_MAX {
            return Err(format!(
                "a socket's path has at most {SOCKET_BYTES_MAX} bytes, and {} is too long: set TMPDIR to a shorter one",
                directory.path().display()
            )
            .into());
        }
        let directory = directory.keep();
        let data = directory.join("data");
        // From here on it is removed whatever happens.
        let server = Server { watcher: watch(&directory, &data)?, directory };
        run(as_user(user, &programs.join("initdb"))
            .args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data))?;
        let settings = format!(
            "\nlisten_addresses = ''\nport = 5432\nfsync = off\nunix_socket_directories = '{}'\n",
            server.directory.display()
        );
        let file = data.join("postgresql.conf");
        fs::write(&file, fs::read_to_string(&file)? + &settings)?;
        let log = data.join("log");
        run(as_user(user, &programs.join("pg_ctl"))
            .arg("-D")
            .arg(&data)
            .args(["-w", "-s", "-l"])
            .arg(&log)
            .arg("start"))
        .map_err(|problem| format!("{problem}\n{}", fs::read_to_string(&log).unwrap_or_default()))?;
        Ok(server)
    }

    /// Where its socket and its data are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// As its superuser. A socket's directory stands where a host would, with its slashes encoded.
    pub fn url(&self) -> String {
        let host: String = self
            .directory
            .as_os_str()
            .as_bytes()
            .iter()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(*byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        format!("postgres://postgres@{host}/postgres")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// The directory of the programs: of Debian's newest version, else the first on the path.
pub fn programs(debian: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_whole = |programs: &PathBuf| programs.join("initdb").exists() && programs.join("pg_ctl").exists();
    let versions = fs::read_dir(debian).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, programs)| is_whole(programs))
        .max();
    newest.map(|(_, programs)| programs).or_else(|| std::env::split_paths(path?).find(is_whole))
}

/// A shell that waits until the pipe that is its input closes, then stops the server, if it runs, and removes the
/// directory. An interrupt on the terminal is not for it.
fn watch(directory: &Path, data: &Path) -> Result<Child, Problem> {
    let script = "trap '' INT TERM HUP; cd /; read -r _; pid=$(head -n 1 \"$2/postmaster.pid\") && kill -QUIT $pid; \
                  n=0; while [ -e \"$2/postmaster.pid\" ] && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.1; done; \
                  rm -rf \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(directory).arg(data);
    Ok(shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

/// A program as the user that the server runs as.
fn as_user(user: Option<(u32, u32)>, program: &Path) -> Command {
    let mut command = match user {
        None => Command::new(program),
        Some((user, group)) => {
            let mut command = Command::new("setpriv");
            let ids = [format!("--reuid={user}"), format!("--regid={group}")];
            command.args(ids).args(["--clear-groups", "--"]).arg(program);
            command
        }
    };
    command.current_dir("/");
    command
}

/// Whom to run as where we are root, which Postgres refuses: the packages' own user, else `nobody`. `None` where we are
/// not.
fn other_user() -> Option<(u32, u32)> {
    let number = |words: &[&str]| -> Option<u32> {
        let said = Command::new("id").args(words).stderr(Stdio::null()).output().ok()?;
        String::from_utf8_lossy(&said.stdout).trim().parse().ok()
    };
    if number(&["-u"])? != 0 {
        return None;
    }
    let of = |name: &str| Some((number(&["-u", name])?, number(&["-g", name])?));
    of("postgres").or_else(|| of("nobody")).or(Some((65_534, 65_534)))
}

/// Runs a command, and gives what it said if it failed. A server that it leaves behind has no pipe of ours.
fn run(command: &mut Command) -> Result<(), Problem> {
    let errors = tempfile::tempfile()?;
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors.try_clone()?)
        .status()
        .map_err(|problem| format!("{}: {problem}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    let said = said_in(errors)?;
    Err(format!("{}: {}", command.get_program().display(), said.trim()).into())
}

fn said_in(mut file: fs::File) -> Result<String, Problem> {
    use std::io::{Read as _, Seek as _};
    let mut said = String::new();
    file.rewind()?;
    file.read_to_string(&mut said)?;
    Ok(said)
}

fn socket_of(directory: &Path) -> std::ffi::OsString {
    directory.join(".s.PGSQL.5432").into_os_string()
}

const SOCKET_BYTES_MAX: usize = 107;
