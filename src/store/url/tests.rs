use super::*;

fn problem(text: &str) -> String {
    let error = text.parse::<StoreUrl>().expect_err(text);
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{text}");
    error.to_string()
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_is_named_in_three_ways() {
    for (text, path) in [
        ("sqlite:vendor-calls.db", "vendor-calls.db"),
        ("sqlite:./a:b.db", "./a:b.db"),
        ("sqlite:/var/lib/calls.db", "/var/lib/calls.db"),
        ("sqlite:///var/lib/calls.db", "/var/lib/calls.db"),
        ("sqlite:a%20b.db", "a%20b.db"),
    ] {
        let url: StoreUrl = text.parse().expect(text);
        assert_eq!((url.path(), url.is_memory()), (Some(Path::new(path)), false), "{text}");
        assert_eq!(
            (url.to_string(), format!("{url:?}")),
            (format!("sqlite:{path}"), format!("StoreUrl(sqlite:{path})"))
        );
    }
    let url: StoreUrl = "sqlite:calls.db".parse().expect("a file");
    assert_eq!(url.relative_to(Path::new("/srv")).path(), Some(Path::new("/srv/calls.db")));
    let url: StoreUrl = "sqlite:///calls.db".parse().expect("a file");
    assert_eq!(url.relative_to(Path::new("/srv")).path(), Some(Path::new("/calls.db")));
}

#[test]
fn memory_is_made_and_never_found() {
    for text in ["memory", "memory:"] {
        let url: StoreUrl = text.parse().expect(text);
        assert_eq!((url.path(), url.is_memory(), url.to_string()), (None, true, "memory:".to_owned()));
        assert!(url.clone().open().is_ok());
        let error = url.create(false).open().expect_err("nobody else's");
        assert_eq!(error.kind(), StoreErrorKind::Absent);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn another_scheme_is_refused_with_what_this_build_knows() {
    let postgres =
        cfg!(feature = "postgres").then_some(", or \"postgres://shop@db.internal/shop?schema=payments\"");
    let file = "\"sqlite:\" and a path, such as \"sqlite:vendor-calls.db\"";
    let knows = format!("{file}{}, or \"memory\"", postgres.unwrap_or_default());
    for (text, scheme) in [("mysql://u@db/calls", "mysql"), ("redis+tls://db", "redis+tls")] {
        assert_eq!(problem(text), format!("this build opens no store `{scheme}`; write {knows}"));
    }
    for text in ["", "calls", "C:\\calls.db"] {
        assert_eq!(problem(text), format!("write {knows}"));
    }
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn a_build_without_sqlite_says_which_feature_has_it() {
    let missing = "this build of steadfast has no SQLite; build it with feature `sqlite`";
    assert_eq!(problem("sqlite:x.db"), missing);
    assert_eq!(StoreUrl::from_argument(OsStr::new("x.db")).expect_err("a file").to_string(), missing);
    let postgres =
        cfg!(feature = "postgres").then_some(", or \"postgres://shop@db.internal/shop?schema=payments\"");
    let knows = format!(
        "{}\"memory\"",
        postgres.map_or(String::new(), |postgres| format!("{}, or ", &postgres[5..]))
    );
    assert_eq!(problem("mysql:x"), format!("this build opens no store `mysql`; write {knows}"));
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_is_shown_without_its_password() {
    for (text, shown) in [
        ("postgres://shop:hunter2@db/calls", "postgres://shop@db/calls?schema=steadfast"),
        (
            "postgresql://shop:hunter2@db:6432/calls?schema=pay&sslmode=disable",
            "postgres://shop@db:6432/calls?schema=pay",
        ),
        ("postgres://shop:hunter%322@a,b:5433/calls", "postgres://shop@a,b:5433/calls?schema=steadfast"),
        (
            "postgres://shop:hunter2@/calls?host=/run/postgresql",
            "postgres://shop@/run/postgresql/calls?schema=steadfast",
        ),
    ] {
        let url: StoreUrl = text.parse().expect(text);
        assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), format!("StoreUrl({shown})")));
        assert_eq!((url.path(), url.is_memory()), (None, false));
    }
}

#[test]
fn only_a_database_is_migrated() {
    let url: StoreUrl = "memory:".parse().expect("a URL");
    assert_eq!(url.migrations_as_sql(true).expect_err("none").kind(), StoreErrorKind::Invalid);
    assert_eq!(url.migrate(false).expect_err("none").kind(), StoreErrorKind::Invalid);
}

#[test]
fn no_refusal_repeats_a_password() {
    for text in [
        "mysql://shop:hunter2@db/calls",
        "postgres://db/calls?password=hunter2",
        "postgres:hunter2",
        "postgresql:shop:hunter2@db",
        "postgres://shop:hunter2@db/calls?hunter2=1",
        "postgres://shop:hunter2@db/calls?sslmode=hunter2",
        "postgres://shop:hunter2@db:x/calls",
        "postgres://shop:a?hunter2@db/calls",
        "postgres://shop:hunter2@/calls",
        "postgres://shop:hunter2@db/calls?schema=Hunter2;hunter2",
        "sqlite:postgres://shop:hunter2@db/calls",
        "sqlite:mysql+ssl://shop:hunter2@db/calls",
        "postgers://shop:hunter2@db/calls",
        " postgres://shop:hunter2@db/calls ",
        "sqlite://shop:hunter2@db/calls",
        "sqlite:////hunter2@db",
        "sqlite:///calls.db?key=hunter2",
        "sqlit://shop:hunter2@db/calls",
        "memory:hunter2",
        "memry:hunter2",
        "Server=db;Password=hunter2",
        "shop:hunter2@db",
    ] {
        let error = text.parse::<StoreUrl>().expect_err(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
        if scheme(text).is_some() {
            let error = StoreUrl::from_argument(OsStr::new(text)).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
        }
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn an_argument_without_a_scheme_is_a_path() {
    for text in
        ["calls.db", "./sqlite:calls.db", "/var/a:b.db", "memory", "sqlite", "C:\\calls.db", "a.b:c", ""]
    {
        let url = StoreUrl::from_argument(OsStr::new(text)).expect(text);
        assert_eq!(url.path(), Some(Path::new(text)));
    }
    for (text, path) in [("sqlite:calls.db", Some("calls.db")), ("memory:", None)] {
        let url = StoreUrl::from_argument(OsStr::new(text)).expect(text);
        assert_eq!(url.path(), path.map(Path::new));
    }
    StoreUrl::from_argument(OsStr::new("mysql:calls")).expect_err("no such store");
}

#[cfg(all(unix, feature = "sqlite"))]
#[test]
fn a_path_that_is_no_text_is_a_path() {
    use std::os::unix::ffi::OsStrExt;

    let name = OsStr::from_bytes(b"sqlite:\xff.db");
    assert_eq!(StoreUrl::from_argument(name).expect("a path").path(), Some(Path::new(name)));
}

#[cfg(all(feature = "sqlite", feature = "seal"))]
#[tokio::test]
async fn a_store_opened_by_url_is_sealed_and_made_as_requested() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let text = format!("sqlite://{}", directory.path().join("calls.db").display());
    let url: StoreUrl = text.parse().expect("a file");
    let error = url.clone().create(false).open().expect_err("not there");
    assert_eq!(error.kind(), StoreErrorKind::Absent);
    let store = url.clone().seal(SealKeys::new([1; 32])).open().expect("made");
    let id = steadfast_core::operation::OperationId::new(
        steadfast_core::operation::Scope::from_stored("test/v//POST /x"),
        steadfast_core::operation::Key::new("a").expect("a key"),
    );
    let claim =
        steadfast_core::internal::testkit::claim_at(&id, steadfast_core::clock::Timestamp::from_millis(1));
    store.claim(claim).await.expect("works");
    drop(store);
    assert_eq!(url.clone().create(false).open().expect_err("sealed").kind(), StoreErrorKind::Sealed);
    open(&text).expect_err("sealed");
    url.create(false).seal(SealKeys::new([1; 32])).open().expect("opens");
}
