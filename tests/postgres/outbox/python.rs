//! The outbox from Python: no crate, only the schema's functions, in a transaction of its own driver.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use support::server::{self, skipped};

use steadfast_core::store::outbox::Outbox as _;

use super::{Shop, account};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres/outbox/shop.py");
/// The code that a reader copies is the code that runs here.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/postgres.md");

/// Debian's packages are for its own Python, whichever else comes first on the path.
const PYTHONS: [&str; 2] = ["/usr/bin/python3", "python3"];
const DRIVERS: [&str; 2] = ["psycopg", "psycopg2"];

/// A shop in Python. Dropping it closes its input, which ends it.
struct Python {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Python {
    fn start(python: &str, driver: &str, shop: &Shop) -> Python {
        let dsn = format!(
            "host={} port={} user=postgres dbname=postgres options=-csearch_path={}",
            shop.server.directory().display(),
            shop.server.port(),
            shop.schema
        );
        let mut child = Command::new(python)
            .args([SCRIPT, driver, &dsn, PAGE, &shop.schema])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Python { child, input, output: BufReader::new(output) }
    }

    /// Sends it a command, and returns its answer.
    fn answer_to(&mut self, word: &str) -> String {
        let mut answer = String::new();
        writeln!(self.input.as_mut().expect("open"), "{word}").expect("it reads");
        self.output.read_line(&mut answer).expect("it answers");
        answer.trim_end().to_owned()
    }

    fn does(&mut self, word: &str) {
        assert_eq!(self.answer_to(word), "done", "{word}");
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Returns each driver that is installed, with a Python that has it.
fn drivers() -> Vec<(&'static str, &'static str)> {
    let has = |python: &str, driver: &str| {
        let import =
            Command::new(python).args(["-c", &format!("import {driver}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    let of = |driver| PYTHONS.into_iter().find(|python| has(python, driver)).map(|python| (python, driver));
    let found: Vec<_> = DRIVERS.into_iter().filter_map(of).collect();
    if found.is_empty() {
        skipped(
            "this machine has no Python with psycopg or psycopg2 (python3-psycopg); a test of the outbox is skipped",
        );
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn python_sends_a_committed_call_once_and_a_rolled_back_one_never() {
    let Some(server) = server::shared() else { return };
    for (python, driver) in drivers() {
        let shop = Shop::open(server);
        let mut service = Python::start(python, driver, &shop);
        for (number, end) in [(41, "rollback"), (42, "commit")] {
            service.does(&format!("place {number}"));
            // It is visible nowhere.
            assert!(!shop.store.have_rows(&[account()]).await.expect("a store")[0], "{driver}");
            shop.deliver().await;
            assert_eq!(shop.counts().await, (0, 0, 0, 0), "{driver}");
            service.does(end);
        }
        assert_eq!(shop.counts().await, (1, 1, 0, 0), "{driver}");
        shop.deliver().await;
        assert_eq!(shop.counts().await, (1, 0, 1, 1), "{driver}");

        // The same order again: the order is refused, and the transaction with it.
        assert!(service.answer_to("place 42").starts_with("23505 "), "{driver}");
        service.does("rollback");
        // A process that ends in the middle of its transaction.
        service.does("place 43");
        drop(service);
        shop.deliver().await;
        assert_eq!(shop.counts().await, (1, 0, 1, 1), "{driver}");

        // From Python it is the same request as from the crate.
        let reply = shop.charge(42).enqueue().await.expect("on record").wait(Duration::ZERO).await;
        assert_eq!(reply.expect("it is done").status(), 200, "{driver}");
        assert_eq!(shop.fake.ledger().count(), 1, "{driver}");
    }
}

/// Values as a driver passes them: a document, an interval, an array. Also a mistake as a program sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn python_passes_every_value_and_gets_mistakes_as_driver_errors() {
    let Some(server) = server::shared() else { return };
    for (python, driver) in drivers() {
        let shop = Shop::open(server);
        let mut service = Python::start(python, driver, &shop);
        service.does("json");
        service.does("commit");
        let row = "SELECT convert_from(body, 'UTF8'), content_type, redact, \
                   due_ms - {schema}.store_now() BETWEEN 3500000 AND 3600000 FROM {schema}.outbox";
        assert_eq!(shop.sql(row), r#"{"to": "é", "amount": 7}|application/json|["to"]|t"#, "{driver}");

        let wrong = service.answer_to("wrong");
        assert!(wrong.starts_with("22023 steadfast outbox: path: begin it with /"), "{driver}: {wrong}");
        // Until it is rolled back, the transaction accepts no statement.
        assert!(service.answer_to("place 1").starts_with("25P02 "), "{driver}");
        service.does("rollback");
        service.does("place 1");
        service.does("commit");
        shop.deliver().await;
        assert_eq!(shop.fake.ledger().count(), 1, "{driver}");
    }
}
