//! A process that delivers: started on a store with due work, watched, and stopped.
//!
//! In real time, because signals and sockets are the machine's. Nothing sleeps: each wait is for an event.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::time::Duration;

use steadfast::Client;
use steadfast::store::Sqlite;
use steadfast::vendor::{Keyed, KeyedConfig};

use super::{RunResult, TestDirectory, schema};

/// A vendor on loopback, and a store with operations for it.
struct Scene {
    place: TestDirectory,
    vendor: TcpListener,
}

impl Scene {
    /// Its vendors file names its store and its vendor.
    async fn with(operations: usize) -> Scene {
        let place = TestDirectory::fresh();
        let vendor = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}", vendor.local_addr().expect("bound"));
        let file = format!(
            "store = \"sqlite:calls.db\"\n[vendors.acme]\nadapter = \"keyed\"\nbase_url = \"{base_url}\"\n\
             secret_env = \"ACME_SECRET\"\nauth = {{ header = \"X-Acme-Token\" }}\n"
        );
        std::fs::write(place.path("vendors.toml"), file).expect("writes");
        let store = Sqlite::open(place.path("calls.db")).expect("opens");
        let client = Client::builder(Keyed::new(KeyedConfig::new("acme", base_url), "none"))
            .store(store)
            .build()
            .expect("a client");
        for number in 0..operations {
            client.post("/x").key(format!("order-{number}")).enqueue().await.expect("recorded");
        }
        Scene { place, vendor }
    }

    fn dispatch(&self, arguments: &[&str]) -> Running {
        let arguments = [&["dispatch", "vendors.toml", "--log", "json"], arguments].concat();
        let mut command = self.place.command(&arguments);
        command.env("ACME_SECRET", SECRET);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let stdout = child.stdout.take().expect("piped");
        Running { child, stderr, stdout, result: Vec::new() }
    }

    /// Reads the next request, without answering it.
    fn request(&self) -> TcpStream {
        let (mut stream, _) = self.vendor.accept().expect("a request");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            assert_eq!(stream.read(&mut byte).expect("reads"), 1, "the request ends early");
            head.push(byte[0]);
        }
        assert!(String::from_utf8_lossy(&head).contains(SECRET), "the vendor is given its secret");
        stream
    }
}

/// A secret that only the vendor may see.
const SECRET: &str = "hush-hush";

fn done(mut stream: TcpStream) {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").expect("writes");
}

/// The process; killed if a test fails before it ends.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    stdout: ChildStdout,
    result: Vec<serde_json::Value>,
}

impl Running {
    /// Returns the next event with this message.
    fn until(&mut self, message: &str) -> serde_json::Value {
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).expect("reads");
            assert!(read > 0, "it ended before it said {message:?}: {:?}", self.result);
            let event: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
            self.result.push(event.clone());
            if event["fields"]["message"] == message {
                return event;
            }
        }
    }

    fn address(&mut self) -> SocketAddr {
        self.until("listening")["fields"]["address"].as_str().expect("text").parse().expect("an address")
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("it runs");
    }

    fn ended(mut self) -> RunResult {
        let code = self.child.wait().expect("it ends").code().expect("it was not killed");
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).expect("text");
        self.stderr.read_to_string(&mut err).expect("text");
        RunResult { code, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of an answer.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream
        .write_all(format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
}

#[cfg(unix)]
#[tokio::test]
async fn due_operations_are_delivered_until_a_signal() {
    use rustix::process::Signal;

    for signal in [Signal::TERM, Signal::INT] {
        let scene = Scene::with(3).await;
        let mut running = scene.dispatch(&["--listen", "127.0.0.1:0", "--json", "--log-level", "trace"]);
        let address = running.address();
        for _ in 0..3 {
            done(scene.request());
        }
        // The last answers are on their way to the record.
        for number in 0..3 {
            while scene.place.json(0, &["show", &format!("order-{number}")])["phase"] != "succeeded" {}
        }
        assert_eq!(ask(address, "GET /health"), (200, "ok\n".to_owned()));
        let (status, text) = ask(address, "GET /metrics");
        assert_eq!(status, 200);
        let attempts = "steadfast_attempts_total{vendor=\"acme\",verdict=\"done\"} 3";
        assert!(text.lines().any(|line| line == attempts), "{text}");
        // Present before the first one, or no alert would see that one.
        let letters = "steadfast_dead_letters_total{vendor=\"acme\",reason=\"unknown\"} 0";
        assert!(text.lines().any(|line| line == letters), "{text}");
        for line in [
            "# TYPE steadfast_waiting gauge",
            "# TYPE steadfast_oldest_due_seconds gauge",
            "steadfast_gate_closed{gate=\"circuit\",vendor=\"acme\"} 0",
            "steadfast_pause_seconds{vendor=\"acme\"} 0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        let typed = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!(
            text.lines().filter(|line| line.starts_with("# HELP ")).count(),
            typed,
            "each has both:\n{text}"
        );
        assert_eq!(ask(address, "POST /health").0, 405);
        assert_eq!(ask(address, "GET /").0, 404);
        running.signal(signal);
        let of_this_process = format!("/{}", running.child.id());
        let log = running.result.iter().map(ToString::to_string).collect::<String>();
        let result = running.ended();
        assert_eq!(result.code, 0, "{}{}", result.out, result.err);
        assert!(
            result.err.contains("order-2") && ![&log, &result.err].iter().any(|log| log.contains(SECRET))
        );
        let answer = schema::answer(&result.out);
        assert_eq!((&answer["command"], &answer["result"]["cut_off"]), (&"dispatch".into(), &0.into()));
        for number in 0..3 {
            let shown = scene.place.json(0, &["show", &format!("order-{number}")]);
            assert_eq!((&shown["phase"], &shown["attempts"]), (&"succeeded".into(), &1.into()));
            let holder = shown["holder"].as_str().expect("it was taken");
            assert!(holder.ends_with(&of_this_process), "{holder}");
        }
    }
}

/// The vendor refuses the secret, and lets the third try wait; beside it are an operation that is late, a row that
/// no client here admits, and one that is rejected.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "bounds a wait for another process")]
async fn each_gauge_shows_waiting_operations_and_closed_gates() {
    let scene = Scene::with(2).await;
    let row = "INSERT INTO steadfast_outbox (namespace, vendor, account, path, key, headers) VALUES ";
    scene.place.sql(&[row, "('prod', 'acme', 'shop', '/', 'k', '{}')"].concat());
    let secret = r#"('default', 'acme', 'default', '/x', 'bad', '{"Cookie": "a"}')"#;
    scene.place.sql(&[row, secret].concat());
    scene.place.sql(
        "UPDATE operation SET attempts = 1, effect = 1, until_ms = until_ms + 2 * 86400000 WHERE key = 'order-1'",
    );
    let mut running = scene.dispatch(&["--listen", "127.0.0.1:0"]);
    let address = running.address();
    for _ in 0..2 {
        let refused = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        scene.request().write_all(refused).expect("writes");
    }
    let _third = scene.request();
    let account = "account=\"default/acme/default\"";
    let expected = [
        format!("steadfast_late{{{account},vendor=\"acme\"}} 1"),
        format!("steadfast_under_way{{{account},vendor=\"acme\"}} 1"),
        "steadfast_in_outbox{account=\"prod/acme/shop\",vendor=\"acme\"} 1".to_owned(),
        format!("steadfast_dispatchers{{{account},vendor=\"acme\"}} 1"),
        format!("steadfast_dispatchers_stopped{{{account},vendor=\"acme\",gate=\"held\",route=\"\"}} 1"),
        format!("steadfast_account_held{{vendor=\"acme\",{account}}} 1"),
        "steadfast_outbox_rejected_rows 1".to_owned(),
    ];
    let began = std::time::Instant::now();
    loop {
        let (_, text) = ask(address, "GET /metrics");
        let missing = |line: &&String| !text.lines().any(|own| own == *line);
        let Some(missing) = expected.iter().find(missing) else { break };
        assert!(began.elapsed() < Duration::from_secs(30), "{missing}\n{text}");
    }
}

/// The name of the command, which answers in the documented shape.
#[cfg(unix)]
pub async fn command() -> String {
    let scene = Scene::with(0).await;
    let mut running = scene.dispatch(&["--json"]);
    running.until("dispatching");
    running.signal(rustix::process::Signal::TERM);
    let answer = schema::answer(&running.ended().out);
    answer["command"].as_str().expect("a command").to_owned()
}

/// Another process cannot ask it to end.
#[cfg(not(unix))]
pub async fn command() -> String {
    "dispatch".to_owned()
}

/// An answer that comes within the limit is recorded; a later one is left to the process that takes it over.
#[cfg(unix)]
#[tokio::test]
async fn sends_in_flight_may_end_within_the_limit() {
    for (limit, answers, phase) in [("30s", true, "succeeded"), ("100ms", false, "in_progress")] {
        let scene = Scene::with(1).await;
        let mut running = scene.dispatch(&["--stop-within", limit]);
        running.until("dispatching");
        let request = scene.request();
        running.signal(rustix::process::Signal::TERM);
        running.until("stopping");
        if answers {
            done(request);
        }
        let result = running.ended();
        let cut_off = "stopped; cut off: 1, until their leases expire\n";
        assert_eq!((result.code, &result.out[..]), (0, if answers { "stopped\n" } else { cut_off }));
        assert_eq!(scene.place.json(0, &["show", "order-0"])["phase"], phase);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let scene = Scene::with(1).await;
    let mut running = scene.dispatch(&["--stop-within", "10m"]);
    let _request = scene.request();
    running.signal(rustix::process::Signal::TERM);
    running.until("stopping");
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.ended().code, 0);
}

#[tokio::test]
async fn health_reports_the_problem() {
    let scene = Scene::with(0).await;
    let mut running = scene.dispatch(&["--listen", "127.0.0.1:0"]);
    let address = running.address();
    assert_eq!(ask(address, "GET /health").0, 200);
    for file in ["calls.db", "calls.db-wal", "calls.db-shm"] {
        // The last two may be missing.
        let _ = std::fs::remove_file(scene.place.path(file));
    }
    running.until("recovery failed");
    let (status, why) = ask(address, "GET /health");
    assert_eq!(status, 503, "{why}");
    assert!(why.starts_with("the store of acme fails: "), "{why}");
    running.child.kill().expect("it runs");
}

#[tokio::test]
async fn a_failed_start_reports_the_reason() {
    let scene = Scene::with(0).await;
    let taken = scene.vendor.local_addr().expect("bound").to_string();
    let run = |arguments: &[&str]| scene.place.run_as(&[("ACME_SECRET", SECRET)], arguments);
    let result = run(&["dispatch", "vendors.toml", "--listen", &taken]);
    assert_eq!(result.code, 5);
    assert!(result.err.contains(&format!("steadfast: {taken} cannot be listened on: ")), "{}", result.err);

    let result = run(&["dispatch"]);
    assert_eq!((result.code, result.err.contains("which vendors file?")), (2, true), "{}", result.err);
    let result = run(&["dispatch", "absent.toml"]);
    assert_eq!(
        (result.code, result.err.contains("absent.toml: cannot be read")),
        (4, true),
        "{}",
        result.err
    );

    std::fs::write(scene.place.path("typo.toml"), "[vendors.stripe]\nsecret_evn = \"X\"\n").expect("writes");
    let result = run(&["dispatch", "typo.toml"]);
    assert_eq!((result.code, result.err.contains("typo.toml:2:1: unknown key")), (4, true), "{}", result.err);

    let secret =
        "store = \"sqlite:calls.db\"\n[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY_THAT_IS_NOT_SET\"\n";
    std::fs::write(scene.place.path("secret.toml"), secret).expect("writes");
    let result = run(&["dispatch", "secret.toml"]);
    assert_eq!(
        (result.code, result.err.contains("STRIPE_SECRET_KEY_THAT_IS_NOT_SET is not set")),
        (4, true),
        "{}",
        result.err
    );

    for store in ["", "store = \"memory\"\n"] {
        let file = format!("{store}[vendors.acme]\nadapter = \"keyed\"\nbase_url = \"http://127.0.0.1:1\"\n");
        std::fs::write(scene.place.path("memory.toml"), file).expect("writes");
        let result = run(&["dispatch", "memory.toml"]);
        assert_eq!((result.code, result.err.contains("which store?")), (2, true), "{}", result.err);
    }
    let result = run(&["dispatch", "memory.toml", "--store", "sqlite:absent.db"]);
    assert_eq!((result.code, result.err.contains("no such store: ")), (3, true), "{}", result.err);
    assert!(!scene.place.path("absent.db").exists(), "none is made");
    for wrong in [["--stop-within", "30"], ["--look-every", "1ms"], ["--listen", "9464"], ["--log", "xml"]] {
        assert_eq!(run(&[&["dispatch", "vendors.toml"], &wrong[..]].concat()).code, 2, "{wrong:?}");
    }
}
