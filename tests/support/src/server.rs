//! A private Postgres: from the machine's binaries, in a directory of its own, on a socket in it.
//!
//! Postgres refuses to run as root, so that its directory then belongs to another user, and every one of its programs
//! runs as that.
//!
//! No test has to stop it. A shell beside it reads from a pipe that this process holds: when the pipe closes, the shell
//! stops the server and removes the directory. It closes when the [`Server`] is dropped, or the test killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::in_memory;

/// A server that runs. Dropped, it stops.
pub struct Server {
    directory: PathBuf,
    programs: PathBuf,
    port: u16,
    /// Reads from the pipe that is its input.
    watcher: Child,
}

/// The server that all tests of a binary share, each with a schema or a database of its own; `None` if the machine has no
/// Postgres.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(&[])).as_ref()
}

impl Server {
    /// One of the test's own, with lines for `postgresql.conf` after those that make it fast; `None` if the machine has
    /// no Postgres.
    pub fn start(settings: &[&str]) -> Option<Server> {
        let Some(programs) = programs() else {
            skipped("this machine has no Postgres (initdb); its tests are skipped");
            return None;
        };
        let directory = private_directory("steadfast-pg");
        let data = directory.join("data");
        run(as_server(Path::new("cp")).arg("-a").arg(initialised(&programs)).arg(&data));
        let port = free_port();
        let own = [
            format!("unix_socket_directories = '{}'", directory.display()),
            format!("port = {port}"),
            // Whoever wants a network says so.
            "listen_addresses = ''".to_owned(),
            "max_connections = 100".to_owned(),
            "shared_buffers = 32MB".to_owned(),
            // No test is about whether Postgres survives a power cut.
            "fsync = off".to_owned(),
            "full_page_writes = off".to_owned(),
            // Nobody replicates.
            "wal_level = minimal".to_owned(),
            "max_wal_senders = 0".to_owned(),
            // Nobody else's work at odd moments.
            "jit = off".to_owned(),
        ];
        let given = settings.iter().map(|setting| (*setting).to_owned());
        let lines: Vec<String> = own.into_iter().chain(given).collect();
        fs::write(data.join("conf.d.conf"), lines.join("\n") + "\n").expect("settings are written");
        let mut conf = fs::read_to_string(data.join("postgresql.conf")).expect("initdb made it");
        conf.push_str("\ninclude 'conf.d.conf'\n");
        fs::write(data.join("postgresql.conf"), conf).expect("settings are written");
        let watcher = watch(&stop_of(&data), &directory);
        let server = Server { directory, programs, port, watcher };
        server.control(&["-w", "-l", "log", "start"]);
        Some(server)
    }

    /// A standby of this server, which must have been started with [`REPLICATES`], with more lines for its settings.
    pub fn standby(&self, settings: &[&str]) -> Server {
        let directory = private_directory("steadfast-pg-standby");
        let (data, port) = (directory.join("data"), free_port());
        run(as_server(&self.programs.join("pg_basebackup"))
            .args(["-U", "postgres", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-h"])
            .arg(&self.directory)
            .args(["-p", &self.port.to_string(), "-D"])
            .arg(&data));
        let own = [format!("unix_socket_directories = '{}'", directory.display()), format!("port = {port}")];
        let given = settings.iter().map(|setting| (*setting).to_owned());
        let mut lines = fs::read_to_string(data.join("conf.d.conf")).expect("the primary has it");
        lines.push_str(&(own.into_iter().chain(given).collect::<Vec<_>>().join("\n") + "\n"));
        fs::write(data.join("conf.d.conf"), lines).expect("settings are written");
        let watcher = watch(&stop_of(&data), &directory);
        let server = Server { directory, programs: self.programs.clone(), port, watcher };
        server.control(&["-w", "-l", "log", "start"]);
        server
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.control(&["-w", "promote"]);
    }

    /// The URL of a schema in database `postgres`, as the superuser.
    pub fn url(&self, schema: &str) -> String {
        self.url_as("postgres", "postgres", schema)
    }

    /// The URL of a schema, by socket.
    pub fn url_as(&self, user: &str, database: &str, schema: &str) -> String {
        let (directory, port) = (self.directory.display(), self.port);
        format!("postgres://{user}@/{database}?host={directory}&port={port}&schema={schema}")
    }

    /// Where its socket is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The port, of its socket and of `listen_addresses` if a setting gives any.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Has the superuser run statements, and gives the rows: a line each, the columns by `|`.
    pub fn sql(&self, statements: &str) -> String {
        self.sql_as("postgres", "postgres", statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Has a user run statements in a database. All are one transaction unless they say otherwise.
    pub fn sql_as(&self, user: &str, database: &str, statements: &str) -> Result<String, String> {
        let said = Command::new(self.programs.join("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", user, "-d", database, "-h"])
            .arg(&self.directory)
            .args(["-p", &self.port.to_string(), "-c", statements])
            .output()
            .expect("psql runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if said.status.success() { Ok(text(&said.stdout)) } else { Err(text(&said.stderr)) }
    }

    /// Comes back once a statement that names the schema meets a condition on `pg_stat_activity`, such as [`ASLEEP`].
    ///
    /// The name is a whole word: `closing_1` is not found in a statement of `closing_12`.
    pub fn until_one_waits(&self, what: &str, schema: &str) {
        let count =
            format!("SELECT count(*) FROM pg_stat_activity WHERE {what} AND query ~ '\\m{schema}\\M'");
        soon(|| if self.sql(&count) == "0" { Err("not yet") } else { Ok(()) });
    }

    /// Ends every connection but the one that asks, as a failover does.
    pub fn kill_backends(&self) {
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
                  AND backend_type = 'client backend'",
        );
    }

    /// Stops at once, as a crash does: nothing is finished, no client is told.
    pub fn crash(&self) {
        self.control(&["-m", "immediate", "stop"]);
    }

    /// Starts again after [`crash`](Server::crash), and waits until it takes connections.
    pub fn start_again(&self) {
        self.control(&["-w", "-l", "log", "start"]);
    }

    /// The log that the server wrote, for a test that failed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("data/log")).unwrap_or_default()
    }

    fn control(&self, words: &[&str]) {
        let mut command = as_server(&self.programs.join("pg_ctl"));
        let data = self.directory.join("data");
        // The server inherits what is open: with a pipe of ours it would keep whoever reads that waiting.
        let status = command
            .current_dir(&data)
            .arg("-D")
            .arg(&data)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("pg_ctl runs");
        assert!(status.success(), "pg_ctl {words:?} failed; the server's log:\n{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// Not `pg_ctl stop`: where no process reaps what we leave, it waits a minute for a process that is dead.
fn stop_of(data: &Path) -> String {
    format!(
        "kill -QUIT $(head -n 1 {pid}); n=0; while [ -e {pid} ] && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.1; done",
        pid = data.join("postmaster.pid").display()
    )
}

/// The settings of a server that has a [`standby`](Server::standby).
pub const REPLICATES: [&str; 2] = ["wal_level = replica", "max_wal_senders = 4"];

/// Says why a test did not run. Where a test that cannot run has failed, it has.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn skipped(why: &str) {
    eprintln!("{why}");
    assert!(std::env::var_os("STEADFAST_NO_SKIP").is_none(), "{why}");
}

/// A directory that belongs to the user that the server runs as. Its name is short: a socket's path has at most 107 bytes.
pub fn private_directory(prefix: &str) -> PathBuf {
    let directory = in_memory::named(prefix).keep();
    if let Some((user, group)) = other_user() {
        std::os::unix::fs::chown(&directory, Some(*user), Some(*group)).expect("root may give it away");
    }
    directory
}

/// A program as the user that the server runs as.
pub fn as_server(program: &Path) -> Command {
    let Some((user, group)) = other_user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).args(["--clear-groups", "--"]);
    command.arg(program).current_dir("/");
    command
}

/// A shell that waits until the pipe that is its input closes, then does `stop` and removes the directory.
pub fn watch(stop: &str, directory: &Path) -> Child {
    let script = format!("trap '' INT TERM HUP; cd /; read -r _; {stop}; rm -rf {}", directory.display());
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell runs")
}

/// A port that is free.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// Of a statement that is in `pg_sleep`.
pub const ASLEEP: &str = "wait_event = 'PgSleep'";

/// The outcome once it is one, within a minute: what a server is told takes effect a little later.
#[allow(clippy::disallowed_methods, reason = "what is waited for is another process")]
pub fn soon<T, E: std::fmt::Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let mut turns = 0;
    loop {
        match attempt() {
            Ok(outcome) => return outcome,
            Err(error) => assert!(turns < 1_200, "still after a minute: {error:?}"),
        }
        turns += 1;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The command as a shell would be given it. None of its words has a space.
pub fn words(command: &Command) -> String {
    let arguments = command.get_args().map(|word| word.to_string_lossy());
    let all: Vec<_> = std::iter::once(command.get_program().to_string_lossy()).chain(arguments).collect();
    all.join(" ")
}

/// Runs it, and shows what it said if it failed.
pub fn run(command: &mut Command) -> Output {
    let said = command.stdin(Stdio::null()).output().expect("the program runs");
    assert!(said.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said.stderr));
    said
}

/// A data directory as `initdb` leaves it, made once in each process: a copy takes a seventh of the time.
fn initialised(programs: &Path) -> &'static Path {
    static MADE: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let make = || {
        let directory = private_directory("steadfast-pg-new");
        let watcher = watch("true", &directory);
        let data = directory.join("data");
        run(as_server(&programs.join("initdb"))
            .args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8"])
            .args(["--locale=C", "-D"])
            .arg(&data));
        (data, watcher)
    };
    &MADE.get_or_init(make).0
}

/// The newest that Debian's packages put there, else what the path has.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, programs): &(u32, PathBuf)| programs.join("initdb").exists())
        .collect();
    found.sort();
    let newest = found.pop().map(|(_, programs)| programs);
    newest.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|directory| directory.join("initdb").exists())
    })
}

/// Whom to run as where we are root: the packages' own user, else the one who owns nothing. `None` where we are not.
fn other_user() -> Option<&'static (u32, u32)> {
    static USER: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let number = |words: &[&str]| -> Option<u32> {
        let said = Command::new("id").args(words).stderr(Stdio::null()).output().ok()?;
        String::from_utf8_lossy(&said.stdout).trim().parse().ok()
    };
    let find = || {
        (number(&["-u"]) == Some(0)).then(|| {
            let of = |name: &str| Some((number(&["-u", name])?, number(&["-g", name])?));
            of("postgres").or_else(|| of("nobody")).unwrap_or((65_534, 65_534))
        })
    };
    USER.get_or_init(find).as_ref()
}
