//! The real binary on a store file that a client filled: each command, with and without `--json`, and its
//! errors.

mod copying;
mod disk;
mod dispatch;
mod errors;
mod fakes;
mod here;
mod letters;
mod manual;
mod names;
mod readme;
mod schema;
mod sealed;
mod secrets;
mod sequences;
mod signature;
mod vendors;
mod waiting;
mod work;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::in_memory;

use serde_json::Value;
use steadfast::clock::{Clock, SystemClock, Timestamp};
use steadfast::operation::record::{Phase, Takeover};
use steadfast::policy::Backoff;
use steadfast::store::Sqlite;
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::Stripe;
use steadfast::{Client, Error};
use tempfile::TempDir;

use support::rig::{Rig, plain};

/// A directory with a store and a vendors file.
pub struct TestDirectory {
    directory: TempDir,
    /// Arguments of the binary for reading a sealed store.
    pub seal_keys: Option<String>,
}

/// Output of a run.
pub struct RunResult {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl TestDirectory {
    pub fn fresh() -> TestDirectory {
        let place = TestDirectory { directory: in_memory::directory(), seal_keys: None };
        let vendors =
            "namespace = \"default\"\n[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY_THAT_IS_NOT_SET\"\n";
        std::fs::write(place.path("vendors.toml"), vendors).expect("writes");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A client whose operations last changed so long ago by the machine's clock, which is the binary's.
    pub fn stripe(&self, ago: Duration, network: &ScriptedTransport) -> Client {
        self.stripe_at(SystemClock::new().wall().minus(ago), network)
    }

    /// A client whose clock is so far ahead of the machine's.
    pub fn stripe_in(&self, ahead: Duration, network: &ScriptedTransport) -> Client {
        self.stripe_at(SystemClock::new().wall().plus(ahead), network)
    }

    /// Lets a service ask the store for its time, so long ago.
    async fn is_looked_at(&self, ago: Duration) {
        use steadfast::store::Store as _;

        let store = Sqlite::open(self.path("calls.db")).expect("opens");
        let take = support::commands::takeover(Phase::Scheduled, SystemClock::new().wall().minus(ago));
        let take = Takeover { lease: ago, attempt_max: ago, limit: 0, ..take };
        assert_eq!(store.take(take).await.expect("works"), []);
        store.close().await;
    }

    fn stripe_at(&self, wall: Timestamp, network: &ScriptedTransport) -> Client {
        let clock = TestClock::auto();
        clock.set_wall(wall);
        let setup = Rig::of(Stripe::new("sk_test_secret")).policy(plain().backoff(Backoff::none()));
        let store = Sqlite::open(self.path("calls.db")).expect("opens");
        setup.store(store).clock(&clock).network(network.clone()).client()
    }

    async fn pays(&self, key: &str, ago: Duration, network: ScriptedTransport) -> Result<(), Error> {
        pay(&self.stripe(ago, &network), key).await
    }

    /// A dead letter of the next minute: later than any time that the binary has frozen.
    pub async fn never_sent_yet(&self, key: &str) {
        let next = SystemClock::new().wall().plus(Duration::from_secs(60));
        let network = ScriptedTransport::new().fail(SendErrorKind::Connect);
        assert!(pay(&self.stripe_at(next, &network), key).await.expect_err("never sent").is_dead_letter());
    }

    /// A dead letter that may have taken effect.
    pub async fn lost(&self, key: &str, ago: Duration) {
        let error = self.pays(key, ago, ScriptedTransport::new().fail(SendErrorKind::Reset)).await;
        assert!(error.expect_err("lost").is_dead_letter());
    }

    /// A dead letter that provably took no effect.
    pub async fn never_sent(&self, key: &str) {
        let error =
            self.pays(key, Duration::ZERO, ScriptedTransport::new().fail(SendErrorKind::Connect)).await;
        assert!(error.expect_err("never sent").is_dead_letter());
    }

    pub async fn succeeds(&self, key: &str, ago: Duration) {
        let network = ScriptedTransport::new().json(200, serde_json::json!({"id": "po_1"}));
        self.pays(key, ago, network).await.expect("succeeds");
    }

    /// A dead letter that the vendor answered.
    pub async fn busy(&self, key: &str) {
        let network = ScriptedTransport::new().status(503);
        assert!(self.pays(key, Duration::ZERO, network).await.expect_err("busy").is_dead_letter());
    }

    /// Puts a copy of the store's file in its place: another file, with the same records.
    fn moves_to_a_copy(&self) {
        let (path, copy) = (self.path("calls.db"), self.path("copy.db"));
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)");
        std::fs::copy(&path, &copy).expect("copies");
        for beside in ["calls.db-wal", "calls.db-shm"] {
            let _ = std::fs::remove_file(self.path(beside));
        }
        std::fs::rename(&copy, &path).expect("takes its place");
    }

    /// Runs SQL as a program without this crate would.
    pub fn sql(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.path("calls.db")).expect("opens");
        file.execute_batch(sql).expect(sql);
    }

    /// Adds so many outbox rows that cannot be admitted, and one without a client here.
    pub async fn rejects(&self, count: usize) {
        let file = rusqlite::Connection::open(self.path("calls.db")).expect("opens");
        let row = "INSERT INTO steadfast_outbox (namespace, vendor, account, path, key, headers) VALUES ";
        for nth in 0..count {
            let values = format!(
                r#"('default', 'stripe', 'test', '/v1/quotes', 'bad-{nth}', '{{"Cookie": "hunter2"}}')"#
            );
            file.execute_batch(&[row, &values].concat()).expect("a row");
        }
        file.execute_batch(&[row, "('prod', 'acme', 'shop', '/', 'k', '{}')"].concat()).expect("a row");
        let stripe = self.stripe(Duration::ZERO, &ScriptedTransport::new());
        stripe.engage_kill_switch();
        stripe.recover(1).await.expect("a store");
    }

    /// Runs the binary on the store with the vendors file.
    pub fn run(&self, arguments: &[&str]) -> RunResult {
        self.run_with(&["--store", "calls.db", "--vendors", "vendors.toml"], arguments)
    }

    pub fn run_with(&self, before: &[&str], arguments: &[&str]) -> RunResult {
        self.run_as(&[("USER", "ada")], &[before, arguments].concat())
    }

    /// Runs it with these variables, those of the store's seal keys, and no others: as in a container.
    pub fn run_as(&self, variables: &[(&str, &str)], arguments: &[&str]) -> RunResult {
        let mut command = self.command(arguments);
        RunResult::new(&command.envs(variables.iter().copied()).output().expect("the binary runs"))
    }

    /// The binary, with no variables but that of the store's seal keys.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null()).env_clear();
        if let Some(keys) = &self.seal_keys {
            command.env("STEADFAST_SEAL_KEYS", keys);
        }
        command
    }

    /// Runs it with `--json` and returns its result.
    pub fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let mut answer = self.answer(code, arguments);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// Runs it with `--json` and returns its error.
    pub fn json_error(&self, code: i32, arguments: &[&str]) -> Value {
        let mut answer = self.answer(code, arguments);
        assert!(answer["result"].is_null(), "{answer}");
        answer["error"].take()
    }

    fn answer(&self, code: i32, arguments: &[&str]) -> Value {
        let result = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(result.code, code, "{}{}", result.out, result.err);
        let answer = schema::answer(&result.out);
        assert_eq!(answer["exit_code"], code);
        answer
    }
}

impl RunResult {
    fn new(output: &Output) -> RunResult {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        RunResult {
            code: output.status.code().expect("it was not killed"),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Returns the output of a run that ended with `code`.
    pub fn ended(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self.out
    }
}

pub const NOW: Duration = Duration::ZERO;

pub async fn pay(stripe: &Client, key: &str) -> Result<(), Error> {
    let form = [("amount", "1000"), ("description", "for Ada")];
    stripe.post("/v1/quotes").key(key).form(&form).send().await.map(drop)
}

/// Longer than Stripe replays a key.
pub const LONG_AGO: Duration = Duration::from_secs(48 * 3600);
