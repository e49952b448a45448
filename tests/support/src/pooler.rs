//! A private PgBouncer before a private Postgres, in transaction mode: what one statement leaves in a session, the next
//! one does not find.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::server::{Server, as_server, free_port, private_directory, skipped, soon, watch, words};

/// The user that a pooler lets in beside the superuser. The server's own is the test's to make.
pub const DISPATCHES: &str = "dispatches";

/// A pooler that runs. Dropped, it stops.
pub struct Pooler {
    directory: PathBuf,
    port: u16,
    watcher: Child,
}

impl Pooler {
    /// One before `server`, with lines for its configuration; `None` if the machine has none.
    pub fn start(server: &Server, settings: &[&str]) -> Option<Pooler> {
        let Some(program) = program() else {
            skipped("this machine has no PgBouncer; its tests are skipped");
            return None;
        };
        let (directory, port) = (private_directory("steadfast-pb"), free_port());
        let at = directory.display();
        let settings = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_port = {port}\n\
             unix_socket_dir = {at}\nauth_type = trust\nauth_file = {at}/users\npool_mode = transaction\n\
             default_pool_size = 4\nlogfile = {at}/log\npidfile = {at}/pid\n{own}\n",
            host = server.directory().display(),
            server_port = server.port(),
            own = settings.join("\n"),
        );
        let users = format!("\"postgres\" \"\"\n\"{DISPATCHES}\" \"\"\n");
        fs::write(directory.join("users"), users).expect("written");
        fs::write(directory.join("ini"), &settings).expect("written");
        let launch = as_server(&program);
        let stop = format!("kill -KILL $(cat {at}/pid)");
        let watcher = watch(&stop, &directory);
        let pooler = Pooler { directory, port, watcher };
        let ini = pooler.directory.join("ini");
        let script = format!("{} -q -d {}", words(&launch), ini.display());
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("a shell runs");
        assert!(status.success(), "{script}: {}", pooler.log());
        let socket = pooler.directory.join(format!(".s.PGSQL.{port}"));
        soon(|| UnixStream::connect(&socket).map_err(|error| format!("{error}: {}", pooler.log())));
        Some(pooler)
    }

    /// The URL of a schema in database `postgres`, as the superuser.
    pub fn url(&self, schema: &str) -> String {
        self.url_as("postgres", schema)
    }

    /// The URL of a schema, as `postgres` or [`DISPATCHES`]: it lets no other user in.
    pub fn url_as(&self, user: &str, schema: &str) -> String {
        let (directory, port) = (self.directory.display(), self.port);
        format!("postgres://{user}@/postgres?host={directory}&port={port}&schema={schema}")
    }

    /// The directory and the port of its socket.
    pub fn socket(&self) -> (&Path, u16) {
        (&self.directory, self.port)
    }

    /// The log that it wrote, for a test that failed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    places.map(|place| place.join("pgbouncer")).find(|program: &PathBuf| Path::exists(program))
}
