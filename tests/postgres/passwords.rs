//! Passwords and certificates that change while a service runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast::clock::Timestamp;
use steadfast::store::{Postgres, Store, StoreError, StoreErrorKind};

use support::calls::{claim_of, id};
use support::server::{Server, soon};

/// A server that asks for the password of `shop`.
fn locked() -> Option<Server> {
    let server = Server::start(&[])?;
    server.sql("CREATE ROLE shop LOGIN PASSWORD 'first'; GRANT CREATE ON DATABASE postgres TO shop");
    let hba = "local all postgres trust\nlocal all all scram-sha-256\n";
    fs::write(server.directory().join("data/pg_hba.conf"), hba).expect("written");
    server.sql("SELECT pg_reload_conf()");
    Some(server)
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("set");
}

/// Rotates the password: it changes, and old sessions end.
fn rotate(server: &Server, password: &str) {
    server.sql(&format!("ALTER ROLE shop PASSWORD '{password}'"));
    server.kill_backends();
}

/// Waits until the killed connections are noticed.
fn works(store: &Postgres, key: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let claim = claim_of(store, &id(key));
    soon(|| runtime.block_on(store.claim(claim.clone())));
}

fn fails(store: &Postgres) -> StoreError {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    soon(|| match runtime.block_on(store.believed(Timestamp::default())) {
        Err(error) if error.kind() != StoreErrorKind::Lost => Ok(error),
        other => Err(format!("{other:?}")),
    })
}

#[test]
fn a_file_of_passwords_is_read_at_each_connection() {
    let Some(server) = locked() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("passwords");
    write(&file, "*:*:*:*:first\n");
    let url = server.url_as("shop", "postgres", "shop") + &format!("&passfile={}", file.display());
    let builder = Postgres::builder(&url).expect("a URL").wait(Duration::from_secs(2));
    let store = builder.open().expect("it opens");
    works(&store, "first");
    rotate(&server, "second");
    assert_eq!(fails(&store).kind(), StoreErrorKind::Denied, "nobody has told us");
    write(&file, "*:*:*:*:second\n");
    works(&store, "second");
    // While it is written it is empty, or cannot be read: the last password still works.
    for broken in ["", "*:*:*:*:\n", "# nothing\n"] {
        write(&file, broken);
        server.kill_backends();
        works(&store, &format!("with {broken:?}"));
    }
    fs::remove_file(&file).expect("removed");
    server.kill_backends();
    works(&store, "without a file");
    rotate(&server, "third");
    assert_eq!(fails(&store).kind(), StoreErrorKind::Denied);
    write(&file, "*:*:*:*:third\n");
    works(&store, "third");
}

#[test]
fn a_password_is_asked_for_at_each_connection() {
    let Some(server) = locked() else { return };
    let password = Arc::new(Mutex::new(Some("first".to_owned())));
    let asked = Arc::clone(&password);
    let builder = Postgres::builder(&server.url_as("shop", "postgres", "shop")).expect("a URL");
    let store = builder.wait(Duration::from_secs(2)).password(move || asked.lock().clone());
    assert!(!format!("{store:?}").contains("first"));
    let store = store.open().expect("it opens");
    rotate(&server, "second");
    *password.lock() = Some("second".to_owned());
    works(&store, "second");
    for unknown in [None, Some(String::new())] {
        *password.lock() = unknown;
        server.kill_backends();
        works(&store, "the last one");
    }
}
