//! The vendors file, checked.

use super::TestDirectory;

#[test]
fn check_lists_all_mistakes_one_a_line() {
    let place = TestDirectory::fresh();
    let text = "[stripe]\nsecret_env = \"S\"\nacount = \"acct_1\"\npolicy.timeout.total = 5\n";
    std::fs::write(place.path("wrong.toml"), text).expect("writes");
    let result = place.run(&["check", "wrong.toml"]);
    assert_eq!(result.code, 4);
    let lines: Vec<&str> = result.err.lines().collect();
    assert_eq!(lines.len(), 3, "{}", result.err);
    assert_eq!(
        lines[0],
        "steadfast: wrong.toml:1:2: unknown table [stripe]; a vendor's table is [vendors.stripe]"
    );
    assert!(
        lines[1].starts_with("wrong.toml:3:1: ") && lines[2].starts_with("wrong.toml:4:24: "),
        "{lines:?}"
    );
    std::fs::write(place.path("empty.toml"), "").expect("writes");
    let result = place.run(&["check", "empty.toml"]);
    assert_eq!(result.code, 4);
    assert!(result.err.starts_with("steadfast: empty.toml:1:1: the file has no vendors"), "{}", result.err);
}

#[test]
fn check_warns_of_a_missing_namespace_unless_all_vendors_are_on_loopback() {
    let place = TestDirectory::fresh();
    let warned = |file: &str| {
        std::fs::write(place.path("some.toml"), file).expect("writes");
        let text = place.run(&["check", "some.toml"]).ended(0);
        let listed = place.json(0, &["check", "some.toml"])["warnings"].clone();
        let warnings = text.matches("warning: no namespace").count();
        assert_eq!(listed.as_array().expect("a list").len(), warnings, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        (warnings, text)
    };
    let outside = "[vendors.stripe]\nsecret_env = 'S'\n[vendors.postmark]\nsecret_env = 'P'\n";
    let (count, text) = warned(outside);
    assert_eq!(count, 1);
    assert!(text.contains("adopt") && text.contains("renames every key"), "{text}");
    assert_eq!(warned(&format!("namespace = 'prod'\n{outside}")).0, 0);
    assert_eq!(warned(&format!("namespace = 'default'\n{outside}")).0, 0, "it is said");
    let fake = "[vendors.stripe]\nsecret_env = 'S'\nbase_url = 'http://127.0.0.1:4010'\n";
    assert_eq!(warned(fake).0, 0);
    assert_eq!(warned(&format!("{fake}[vendors.postmark]\nsecret_env = 'P'\n")).0, 1);
}

#[test]
fn check_makes_no_store() {
    let place = TestDirectory::fresh();
    let text = "store = \"sqlite:named.db\"\n[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY\"\n";
    std::fs::write(place.path("good.toml"), text).expect("writes");
    place.run_with(&[], &["check", "good.toml"]).ended(0);
    // Neither does a command that asks for the vendors' rules.
    let result = place.run_with(&["--store", "absent.db", "--vendors", "good.toml"], &["stats"]);
    assert_eq!(result.code, 3, "{}", result.err);
    assert!(!place.path("named.db").exists() && !place.path("absent.db").exists());
}
