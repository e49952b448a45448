//! TLS, checked for each value of `sslmode`, against a server whose certificate this test made.

#![cfg(feature = "rustls")]

use std::path::{Path, PathBuf};
use std::process::Command;

use steadfast::store::StoreErrorKind;

use super::{opened, refused};
use support::server::{Server, private_directory, run, skipped, soon};

/// Certificates, as files of PEM.
struct Certificates(PathBuf);

impl Certificates {
    /// Creates a root, another root, a server's certificate for `localhost` and a client's for role `shop`.
    /// `None` without openssl.
    fn make() -> Option<Certificates> {
        if Command::new("openssl").arg("version").output().is_err() {
            skipped("this machine has no openssl; the tests of TLS are skipped");
            return None;
        }
        let made = Certificates(private_directory("steadfast-tls"));
        for root in ["root", "other"] {
            made.openssl(&format!("req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN={root} -keyout {root}.key -out {root}.crt"));
        }
        // Also the client's: with an extension it is of version 3, and rustls knows no other.
        std::fs::write(made.0.join("names"), "subjectAltName=DNS:localhost").expect("written");
        for (name, subject) in [("server", "localhost"), ("client", "shop")] {
            made.openssl(&format!(
                "req -newkey rsa:2048 -nodes -subj /CN={subject} -keyout {name}.key -out {name}.csr"
            ));
            made.openssl(&format!(
                "x509 -req -in {name}.csr -CA root.crt -CAkey root.key -CAcreateserial -days 30 -out {name}.crt -extfile names"
            ));
        }
        Some(made)
    }

    fn openssl(&self, words: &str) {
        run(Command::new("openssl").args(words.split_whitespace()).current_dir(&self.0));
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Gives the server its files, which it must own alone.
    fn give(&self, server: &Server) {
        let data = server.directory().join("data");
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&data).expect("it is there"));
        for name in ["server.crt", "server.key", "root.crt"] {
            let to = data.join(name);
            std::fs::copy(self.0.join(name), &to).expect("copied");
            std::os::unix::fs::chown(&to, Some(owner), None).expect("given away");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&to, mode).expect("set");
        }
        std::fs::write(data.join("pg_hba.conf"), HBA).expect("written");
        server.sql("ALTER SYSTEM SET ssl = on");
        server.sql("ALTER SYSTEM SET ssl_ca_file = 'root.crt'");
        server.sql("SELECT pg_reload_conf()");
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

const HBA: &str = "local all all trust\nhostssl all shop all cert\nhostnossl all postgres all trust\n\
                   hostssl all postgres all trust\n";

fn url(server: &Server, host: &str, more: &str) -> String {
    format!("postgres://postgres@{host}:{}/postgres?schema=shop&{more}", server.port())
}

#[test]
fn each_sslmode_means_the_same_as_in_libpq() {
    let Some(server) = Server::start(&["listen_addresses = '127.0.0.1'"]) else { return };
    let Some(made) = Certificates::make() else { return };
    let (root, other) = (made.path("root.crt"), made.path("other.crt"));

    // A server without TLS.
    for more in ["sslmode=disable", "sslmode=prefer", ""] {
        opened(&url(&server, "127.0.0.1", more)).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
    let full = format!("sslmode=verify-full&sslrootcert={root}");
    for more in ["sslmode=require", &full] {
        let text = refused(&url(&server, "localhost", more), StoreErrorKind::Untrusted);
        assert!(text.contains("server does not support TLS"), "{text}");
    }

    made.give(&server);
    // The first connections may still reach the server before it has read its settings again.
    soon(|| opened(&url(&server, "localhost", &full)));
    let encrypted = |name: &str| {
        server.sql(&format!(
            "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{name}'"
        ))
    };
    let ca = format!("sslmode=verify-ca&sslrootcert={root}");
    let required = format!("sslmode=require&sslrootcert={root}");
    let implied = format!("sslrootcert={root}");
    for (name, host, more, is_encrypted) in [
        ("disabled", "localhost", "sslmode=disable", "f"),
        ("preferred", "127.0.0.1", "sslmode=prefer", "t"),
        ("defaulted", "127.0.0.1", "", "t"),
        ("required", "127.0.0.1", "sslmode=require", "t"),
        ("by_root", "127.0.0.1", &ca, "t"),
        ("required_by_root", "127.0.0.1", &required, "t"),
        ("fully", "localhost", &full, "t"),
        ("implied", "localhost", &implied, "t"),
    ] {
        let named = url(&server, host, &format!("{more}&application_name={name}"));
        let store = opened(&named)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", refused(&named, error.kind())));
        assert_eq!(encrypted(name), is_encrypted, "{name}");
        drop(store);
    }

    let other_ca = format!("sslmode=verify-ca&sslrootcert={other}");
    let other_required = format!("sslmode=require&sslrootcert={other}");
    let other_full = format!("sslmode=verify-full&sslrootcert={other}");
    for (host, more) in [
        // Not the name in the certificate.
        ("127.0.0.1", full.as_str()),
        ("localhost", &other_ca),
        ("localhost", &other_required),
        ("localhost", &other_full),
        // No root of the platform.
        ("localhost", "sslmode=verify-full"),
        ("localhost", "sslrootcert=system"),
    ] {
        let text = refused(&url(&server, host, more), StoreErrorKind::Untrusted);
        assert!(text.contains("sslrootcert") && text.contains("certificate"), "{text}");
    }
    let absent = refused(&url(&server, "localhost", "sslrootcert=/no/such.pem"), StoreErrorKind::Invalid);
    assert!(absent.contains("`sslrootcert` /no/such.pem cannot be read"), "{absent}");
}

#[test]
fn a_client_shows_its_own_certificate() {
    let Some(server) = Server::start(&["listen_addresses = '127.0.0.1'"]) else { return };
    let Some(made) = Certificates::make() else { return };
    server.sql("CREATE ROLE shop LOGIN; GRANT CREATE ON DATABASE postgres TO shop");
    made.give(&server);
    let root = made.path("root.crt");
    let base = format!(
        "postgres://shop@localhost:{}/postgres?schema=shop&sslmode=verify-full&sslrootcert={root}",
        server.port()
    );
    let own = format!("{base}&sslcert={}&sslkey={}", made.path("client.crt"), made.path("client.key"));
    soon(|| opened(&own));
    refused(&base, StoreErrorKind::Denied);
    let swapped = format!("{base}&sslcert={}&sslkey={}", made.path("client.crt"), made.path("server.key"));
    refused(&swapped, StoreErrorKind::Invalid);
}
