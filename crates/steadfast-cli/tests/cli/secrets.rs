//! Every secret that a client or the command line was ever given, searched for in all output of the command
//! line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use steadfast::store::{SealKeys, Sqlite};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{BigCommerce, Keyed, KeyedConfig, Postmark, Stripe};
use steadfast::{Client, ClientBuilder, Policy};

use support::on_disk::{has, read};

/// The adapters' own, in the variables that the vendors file names.
const OWN: [(&str, &str); 4] = [
    ("STRIPE_SECRET", "sk_test_4f9a1c77e2"),
    ("POSTMARK_SECRET", "5f1c9a3e-pm-token"),
    ("BIGCOMMERCE_SECRET", "bc9e02f771d4token"),
    ("ACME_SECRET", "acme88a1f0secret"),
];

/// Given to calls and to clients, which refuse them.
const REFUSED: [&str; 3] =
    ["signature_that_a_call_gave", "bearer_that_a_call_gave", "password_in_a_base_url"];

/// A value that SQL puts in the outbox stays in the file until the row is removed. No command shows it.
const IN_A_ROW: &str = "bearer_that_sql_gave";

/// A key of zeros would be found in any file.
const SEAL_KEY: &str = "c7d1a0b94e5f62738495a6b7c8d9eafb0c1d2e3f405162738495a6b7c8d9eafb";

const VENDORS: &str = r#"
[vendors.stripe]
secret_env = "STRIPE_SECRET"
[vendors.postmark]
secret_env = "POSTMARK_SECRET"
[vendors.bigcommerce]
secret_env = "BIGCOMMERCE_SECRET"
store_hash = "abc123"
[vendors.acme]
adapter = "keyed"
secret_env = "ACME_SECRET"
base_url = "https://acme.test"
window = "24h"
key = { header = "Idempotency-Key" }
auth = { header = "X-Acme-Token", prefix = "Token " }
"#;

struct TestDirectory {
    directory: TempDir,
    is_sealed: bool,
}

impl TestDirectory {
    /// Returns a store with a dead letter of each vendor, whose clients were given all these secrets.
    async fn filled(is_sealed: bool) -> TestDirectory {
        let place = TestDirectory { directory: support::in_memory::directory(), is_sealed };
        std::fs::write(place.path("vendors.toml"), VENDORS).expect("writes");
        std::fs::write(place.path("body.json"), r#"{"a":2}"#).expect("writes");
        let builder = Sqlite::builder(place.path("calls.db"));
        let keys = || SealKeys::parse(SEAL_KEY, "STEADFAST_SEAL_KEYS").expect("a key");
        let store = if is_sealed { builder.seal(keys()) } else { builder }.open();
        let store = Arc::new(store.expect("opens"));
        let network = ScriptedTransport::new().always_fail(SendErrorKind::Timeout);
        for builder in builders() {
            let builder =
                builder.store(Arc::clone(&store)).clock(TestClock::auto()).transport(network.clone());
            let policy = Policy::background().lookups_max(0).without_breaker();
            let client = builder.policy(policy).secret_headers(["X-Signature"]).build().expect("a client");
            let call = || {
                client
                    .post("/v2/orders")
                    .header("X-Customer", "in the file")
                    .header("Stripe-Version", "2025-08-27.basil")
                    .json(&json!({"a": 1}))
            };
            for key in ["lost", "other"] {
                call().key(format!("{key}-{}", client.vendor())).send().await.expect_err("lost");
            }
            for (name, value) in [("X-Signature", REFUSED[0]), ("Authorization", REFUSED[1])] {
                call().key("refused").header(name, value).send().await.expect_err("refused");
                place.put_in_outbox(client.vendor(), name);
            }
            client.engage_kill_switch();
            client.recover(1).await.expect("a store");
        }
        let userinfo = format!("https://u:{}@api.test", REFUSED[2]);
        Client::builder(Stripe::new(OWN[0].1).base_url(userinfo)).build().expect_err("refused");
        for (_, secret) in OWN {
            let is_sent = |request: &steadfast::transport::Request| {
                let holds =
                    |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).contains(secret);
                request.headers.values().any(holds)
            };
            assert!(network.requests().iter().any(is_sent), "{secret} goes to its vendor");
        }
        place
    }

    /// Adds a row by SQL, which no client checks.
    fn put_in_outbox(&self, vendor: &str, name: &str) {
        let account = match vendor {
            "stripe" => "test",
            "bigcommerce" => "abc123",
            _ => "default",
        };
        let file = rusqlite::Connection::open(self.path("calls.db")).expect("opens");
        let headers = json!({ name: IN_A_ROW }).to_string();
        let insert = "INSERT INTO steadfast_outbox (vendor, account, path, key, headers) VALUES (?1, ?2, '/v2/x', 'k', ?3)";
        file.execute(insert, [vendor, account, &headers]).expect("a row");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs it with all the secrets in its environment.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.args(arguments).current_dir(self.directory.path()).env_clear();
        command.env("USER", "ada").env("RUST_LOG", "trace").envs(OWN);
        command.env("STEADFAST_STORE", "calls.db").env("STEADFAST_VENDORS", "vendors.toml");
        if self.is_sealed {
            command.env("STEADFAST_SEAL_KEYS", SEAL_KEY);
        }
        command.output().expect("the binary runs")
    }

    /// Returns every command, as clap itself knows them: each has a manual page, and a command with subcommands
    /// is none.
    fn commands(&self) -> Vec<Vec<String>> {
        assert!(self.run(&["man", "--out", "pages"]).status.success());
        let mut commands = Vec::new();
        for page in std::fs::read_dir(self.path("pages")).expect("a directory") {
            let page = page.expect("a page").path();
            if std::fs::read_to_string(&page).expect("text").contains(".SH SUBCOMMANDS") {
                continue;
            }
            let name = page.file_stem().expect("a name").to_string_lossy().into_owned();
            let name = name.trim_start_matches("steadfast-");
            commands.push(match name.strip_prefix("dead-letters-") {
                Some(letters) => vec!["dead-letters".to_owned(), letters.to_owned()],
                None => vec![name.to_owned()],
            });
        }
        commands.sort();
        commands
    }
}

fn builders() -> [ClientBuilder; 4] {
    let keyed: KeyedConfig = serde_json::from_value(json!({
        "name": "acme", "base_url": "https://acme.test", "key": {"header": "Idempotency-Key"}, "window": "24h",
        "auth": {"header": "X-Acme-Token", "prefix": "Token "},
    }))
    .expect("a vendor");
    [
        Client::builder(Stripe::new(OWN[0].1)),
        Client::builder(Postmark::new(OWN[1].1)),
        Client::builder(BigCommerce::new("abc123", OWN[2].1)),
        Client::builder(Keyed::new(keyed, OWN[3].1)),
    ]
}

/// Returns the arguments of a command: for its action, for its largest output, and for its errors. A new
/// command has no row.
fn typed(command: &str) -> &'static [&'static [&'static str]] {
    match command {
        "stats" => &[&[], &["--store", "absent.db"]],
        // An address of no host (RFC 5737), so that each ends before it delivers. Its log is checked in
        // tests/cli.
        "dispatch" => &[
            &["--listen", "192.0.2.1:1", "--log-level", "trace"],
            &["absent.toml"],
            &["--store", "postgres://u:in-the-url@db/x"],
        ],
        "check" => &[&[], &["vendors.toml"], &["absent.toml"]],
        "completions" => &[&["bash"], &["csh"]],
        "man" => &[&[], &["--out", "more"], &["--out", "body.json"]],
        "show" => &[
            &["lost-stripe"],
            &["lost-postmark", "--bodies", "--why", "x"],
            &["lost-acme", "--bodies", "--why", "x"],
            &["absent"],
        ],
        "outbox" => &[&[], &["--limit", "1"], &["--after", "x"]],
        "cancel" => &[&["lost-stripe", "--why", "x"], &["lost-stripe"]],
        "adopt" => &[
            &["--from", "default/acme/", "--to", "default/stripe/test"],
            &["--from", "default/acme/", "--to", "default/nobody/"],
        ],
        "reseal" => {
            &[&["--dry-run"], &[], &["--wipe"], &["--store", "postgres://u:in-the-url@127.0.0.1:1/x"]]
        }
        "migrate" => {
            &[&[], &["--sql", "--roles"], &["--store", "postgres://u:in-the-url@127.0.0.1:1/x", "--sql"]]
        }
        "copy" => &[
            &[
                "--from",
                "postgres://u:in-the-url@127.0.0.1:1/x",
                "--to",
                "postgres://u:in-the-url@127.0.0.1:1/y",
            ],
            &["--from", "calls.db", "--to", "copied.db"],
            &["--from", "calls.db", "--to", "elsewhere.db"],
            &["--from", "calls.db", "--give-up", "--to", "copied.db"],
            &["--from", "calls.db", "--give-up", "--lost"],
        ],
        "here" => &[&[], &["--will-move", "--why", "x"], &["--moved", "--copy"]],
        "list" => &[&[], &["--overdue"], &["--limit", "1"], &["--after", "x"]],
        "status" => &[&[], &["--store", "absent.db"]],
        "terms" => &[&[], &["--forget", "default/stripe/test"]],
        "dead-letters list" => &[&[], &["--group"], &["--vendor", "nobody"], &["--after", "x"]],
        "dead-letters show" => {
            &[&["other-stripe", "--bodies", "--why", "x"], &["other-bigcommerce"], &["absent"]]
        }
        "dead-letters redrive" => &[&["--all"], &["lost-postmark"], &["lost-acme", "--force", "--why", "x"]],
        "dead-letters resolve" => &[&["lost-bigcommerce", "--applied", "1", "--why", "x"], &["absent"]],
        "dead-letters edit" => &[
            &["other-stripe", "--key", "new", "--body", "body.json", "--force", "--why", "x"],
            &["other-stripe", "--key", "new", "--body", "absent.json", "--why", "x"],
        ],
        "dead-letters export" => {
            &[&["--bodies", "--why", "x"], &["--output", "letters.jsonl", "--bodies", "--why", "x"]]
        }
        "dead-letters purge" => &[&[]],
        // It knows of no store and of no secret; a plan that is not there ends it.
        "fakes" => &[&["--stripe", "0", "--plan", "absent.toml"], &[]],
        other => panic!("`{other}` is a new command: say here what is typed, so that its output is searched"),
    }
}

/// Finding E3.
#[tokio::test]
async fn no_output_of_any_command_holds_a_secret() {
    nothing_said_holds_a_secret(&TestDirectory::filled(false).await);
}

/// Finding E3.
#[tokio::test]
async fn no_output_on_a_sealed_store_holds_a_secret() {
    nothing_said_holds_a_secret(&TestDirectory::filled(true).await);
}

/// Returns each command line that is tried.
fn lines(place: &TestDirectory) -> Vec<Vec<String>> {
    let mut lines = vec![vec!["--help".to_owned()]];
    for words in place.commands() {
        let typed = typed(&words.join(" ")).iter();
        let ends = typed.flat_map(|typed| [typed.to_vec(), [typed, &["--json"][..]].concat()]).chain([
            vec!["--help"],
            vec!["-h"],
            vec!["--no-such-option"],
        ]);
        lines.extend(
            ends.map(|end| words.iter().cloned().chain(end.into_iter().map(str::to_owned)).collect()),
        );
    }
    lines
}

/// Returns the output of a command line, and its arguments.
fn say(place: &TestDirectory, line: &[String]) -> (String, Vec<u8>) {
    let result = place.run(&line.iter().map(String::as_str).collect::<Vec<_>>());
    let bytes = [result.stdout, result.stderr].concat();
    let is_ended = result.status.code().is_some_and(|code| code < 7);
    assert!(is_ended, "{line:?}: {}", String::from_utf8_lossy(&bytes));
    assert!(!bytes.is_empty(), "{line:?} says something");
    (line.join(" "), bytes)
}

fn nothing_said_holds_a_secret(place: &TestDirectory) {
    // One that waits for a server that is not there touches nothing of the place: all of them wait at once.
    let (of_servers, others): (Vec<_>, Vec<_>) =
        lines(place).into_iter().partition(|line| line.iter().any(|word| word.starts_with("postgres://")));
    let mut seen: Vec<(String, Vec<u8>)> = std::thread::scope(|scope| {
        let waiting: Vec<_> = of_servers.iter().map(|line| scope.spawn(|| say(place, line))).collect();
        let others: Vec<_> = others.iter().map(|line| say(place, line)).collect();
        let waited = waiting.into_iter().map(|one| one.join().expect("no panic"));
        others.into_iter().chain(waited).collect()
    });
    let result = |text: &str| seen.iter().filter(|(_, bytes)| has(bytes, text)).count();
    assert_eq!(result(IN_A_ROW), 0, "a header of a row that was rejected");
    assert!(result("carries a secret") > 0, "it was rejected");
    for entry in files(place.directory.path()) {
        let bytes = read(&entry);
        seen.push((entry.display().to_string(), bytes));
    }
    let shows = |text: &str| seen.iter().filter(|(_, bytes)| has(bytes, text)).count();
    assert!(
        shows("in the file") > 4 && shows("X-Customer") + shows("x-customer") > 4,
        "what is stored is shown"
    );
    let half = &SEAL_KEY[..24];
    let raw: Vec<u8> =
        (0..12).map(|at| u8::from_str_radix(&SEAL_KEY[2 * at..2 * at + 2], 16).expect("hex")).collect();
    for (place, bytes) in &seen {
        for secret in OWN.iter().map(|(_, secret)| *secret).chain(REFUSED).chain([half]) {
            assert!(!has(bytes, secret), "{secret} is in {place}");
        }
        assert!(!bytes.windows(raw.len()).any(|window| window == raw), "the seal key is in {place}");
    }
}

/// Returns all files of a directory and below it: the store, its log and the commands' files.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    assert!(!files.is_empty());
    files
}
