//! The vendors file, checked.

use super::Place;

#[test]
fn check_tells_all_mistakes_a_line_each() {
    let place = Place::fresh();
    let text = "[stripe]\nsecret_env = \"S\"\nacount = \"acct_1\"\npolicy.timeout.total = 5\n";
    std::fs::write(place.path("wrong.toml"), text).expect("writes");
    let said = place.run(&["check", "wrong.toml"]);
    assert_eq!(said.code, 4);
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), 3, "{}", said.err);
    assert_eq!(
        lines[0],
        "steadfast: wrong.toml:1:2: unknown table [stripe]; a vendor's table is [vendors.stripe]"
    );
    assert!(
        lines[1].starts_with("wrong.toml:3:1: ") && lines[2].starts_with("wrong.toml:4:24: "),
        "{lines:?}"
    );
    std::fs::write(place.path("empty.toml"), "").expect("writes");
    let said = place.run(&["check", "empty.toml"]);
    assert_eq!(said.code, 4);
    assert!(said.err.starts_with("steadfast: empty.toml:1:1: the file has no vendors"), "{}", said.err);
}

#[test]
fn check_makes_no_store() {
    let place = Place::fresh();
    let text = "store = \"sqlite:named.db\"\n[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY\"\n";
    std::fs::write(place.path("good.toml"), text).expect("writes");
    place.run_with(&[], &["check", "good.toml"]).ended(0);
    // Neither does a command that asks for the vendors' rules.
    let said = place.run_with(&["--store", "absent.db", "--vendors", "good.toml"], &["stats"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(!place.path("named.db").exists() && !place.path("absent.db").exists());
}
