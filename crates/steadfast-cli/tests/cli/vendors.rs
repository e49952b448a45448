//! The vendors file, checked.

use super::Place;

#[test]
fn check_lists_all_mistakes_one_a_line() {
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
fn check_warns_of_a_missing_namespace_unless_all_vendors_are_on_loopback() {
    let place = Place::fresh();
    let warned = |text: &str| {
        std::fs::write(place.path("some.toml"), text).expect("writes");
        let said = place.run(&["check", "some.toml"]).ended(0);
        let told = place.json(0, &["check", "some.toml"])["warnings"].clone();
        let warnings = said.matches("warning: no namespace").count();
        assert_eq!(told.as_array().expect("a list").len(), warnings, "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        (warnings, said)
    };
    let outside = "[vendors.stripe]\nsecret_env = 'S'\n[vendors.postmark]\nsecret_env = 'P'\n";
    let (count, said) = warned(outside);
    assert_eq!(count, 1);
    assert!(said.contains("adopt") && said.contains("renames every key"), "{said}");
    assert_eq!(warned(&format!("namespace = 'prod'\n{outside}")).0, 0);
    assert_eq!(warned(&format!("namespace = 'default'\n{outside}")).0, 0, "it is said");
    let fake = "[vendors.stripe]\nsecret_env = 'S'\nbase_url = 'http://127.0.0.1:4010'\n";
    assert_eq!(warned(fake).0, 0);
    assert_eq!(warned(&format!("{fake}[vendors.postmark]\nsecret_env = 'P'\n")).0, 1);
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
