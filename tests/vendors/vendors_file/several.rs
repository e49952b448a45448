//! All mistakes of a file in one run: each is told, and nothing that nobody wrote.

use std::collections::BTreeSet;

use steadfast::Vendors;

use crate::vendors_file::{example, refusal};

/// The errors of a file, by place: `4:3`.
fn places(text: &str) -> Vec<String> {
    let error = Vendors::parse(text, "vendors.toml").expect_err(text);
    let place = |mistake: &steadfast::Mistake| {
        format!("{}:{}", mistake.line().expect("a line"), mistake.column().expect("a column"))
    };
    error.mistakes().iter().map(place).collect()
}

#[test]
fn every_mistake_of_a_file_is_told_in_the_order_of_the_lines() {
    let text = r#"namespace = "a/b"
store = "sqlite://calls.db"
api_key = "sk_live_hunter2"

[postmark]
secret_env = "POSTMARK_TOKEN"
settle_tme = "10s"

[vendors.stripe]
secret_env = STRIPE_SECRET_KEY
acount = "acct_1"
base_url = "api.stripe.com"
api_version = "a\nb"
redact = [""]

[vendors.stripe.policy.timeout]
atempt = "20s"
connect = "5 secs 1"
total = 40

[vendors.stripe.policy.breaker]
slow_call = {}
probes = 0

[vendors.bigcommerce]
policy.backoff.steps = ["1x", "2s", "3 q"]
"#;
    let said = refusal(text);
    let expected = [
        r#"1:13: `namespace`: it must be 1 to 64 letters, digits, `_`, `-` or `.`, such as "prod-eu""#,
        r#"2:9: `store`: a path follows `sqlite:`; did you mean "sqlite:calls.db"?"#,
        "3:1: `api_key` in the file's top table would put a secret into this file; keep it in an environment \
         variable and name that here: `secret_env = \"VENDOR_SECRET\"`",
        "5:2: unknown table [postmark]; a vendor's table is [vendors.postmark]",
        "7:1: unknown key `settle_tme` in [vendors.postmark]; did you mean `settle_time`?",
        "10:14: not TOML: string values must be quoted, expected literal string",
        "11:1: unknown key `acount` in [vendors.stripe]; did you mean `account`?",
        r#"12:12: `base_url` in [vendors.stripe]: it lacks its scheme; write it whole, as "https://api.stripe.com""#,
        "13:15: `api_version` in [vendors.stripe]: Stripe-Version: a character that a header cannot carry",
        "14:10: `redact` in [vendors.stripe]: a field's name must not be empty",
        "17:1: unknown key `atempt` in [vendors.stripe.policy.timeout]; did you mean `attempt`?",
        r#"18:11: `connect` in [vendors.stripe.policy.timeout]: "5 secs 1" is not a duration; write a number with its unit, such as "500ms", "30s" or "5m""#,
        r#"19:9: `total` in [vendors.stripe.policy.timeout]: 40 is not a duration; a duration needs a unit, such as "40s" or "40ms""#,
        "22:13: `over` is missing from [vendors.stripe.policy.breaker.slow_call]",
        "22:13: `rate` is missing from [vendors.stripe.policy.breaker.slow_call]",
        "23:10: `breaker.probes` in [vendors.stripe.policy]: 0 lets no call through, so that an open circuit never closes",
        "25:1: `store_hash` is missing from [vendors.bigcommerce]; it stands",
        "25:10: `secret_env` is missing from [vendors.bigcommerce]",
        r#"26:25: `steps` in [vendors.bigcommerce.policy.backoff]: "1x" is not a duration"#,
        r#"26:37: `steps` in [vendors.bigcommerce.policy.backoff]: "3 q" is not a duration"#,
    ];
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, expected) in said.lines().zip(expected) {
        assert!(line.starts_with(&format!("vendors.toml:{expected}")), "{line}\n{expected}");
    }
}

#[test]
fn each_mistake_can_be_had_by_itself() {
    let text = "zzzzzzzzzzz = 1\n[vendors.stripe]\nsecret_env = 'S'\n  acount = 1";
    let error = Vendors::parse(text, "deploy/vendors.toml").expect_err("two mistakes");
    let [top, stripe] = error.mistakes() else { panic!("{error}") };
    assert_eq!((top.file(), top.line(), top.column()), ("deploy/vendors.toml", Some(1), Some(1)));
    assert_eq!((stripe.line(), stripe.column()), (Some(4), Some(3)));
    assert_eq!(stripe.problem(), "unknown key `acount` in [vendors.stripe]; did you mean `account`?");
    assert_eq!(error.to_string(), format!("{top}\n{stripe}"));
    assert_eq!((error.code(), error.is_validation()), ("VALIDATION.config", true));
    let absent = Vendors::from_file("absent.toml").expect_err("absent");
    let [file] = absent.mistakes() else { panic!("{absent}") };
    assert_eq!((file.file(), file.line(), file.column()), ("absent.toml", None, None));
}

/// The example with one line replaced by what `change` makes of it, for each line that it changes.
fn slips(change: impl Fn(&str, &str) -> Option<String>) -> Vec<(usize, String)> {
    let text = example();
    let lines: Vec<&str> = text.lines().collect();
    let mut slips = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with(['#', '[']))
        else {
            continue;
        };
        if let Some(changed) = change(key, value) {
            let mut lines = lines.clone();
            lines[index] = &changed;
            slips.push((index + 1, lines.join("\n")));
        }
    }
    assert!(slips.len() > 20, "{}", slips.len());
    slips
}

/// Whatever is wrong with one key, no other key is blamed for it: not those that are compared with it, and not the
/// table that needs it.
#[test]
fn one_slip_is_one_mistake() {
    let misspelt = slips(|key, value| Some(format!("{key}x = {value}")));
    let unquoted = slips(|key, _| Some(format!("{key} = none of these")));
    let of_another_kind = slips(|key, _| Some(format!("{key} = 1979-05-27")));
    // `slow_call` is a table, of which the rest would be missing.
    let is_plain = |key: &str, value: &str| !value.starts_with('{') && key != "slow_call";
    let a_table = slips(|key, value| is_plain(key, value).then(|| format!("{key} = {{ zzzzzzzzz = 1 }}")));
    // Any text names an account.
    let is_checked = |key: &str, value: &str| value.starts_with('"') && key != "account";
    let blank = slips(|key, value| is_checked(key, value).then(|| format!("{key} = \" \"")));
    for (line, text) in [misspelt, unquoted, of_another_kind, a_table, blank].concat() {
        let written = text.lines().nth(line - 1).expect("the line");
        assert!(Vendors::parse(&text, "v").is_err(), "{written}");
        let told = places(&text);
        assert_eq!(told.len(), 1, "{written}\n{}", refusal(&text));
        assert!(told[0].starts_with(&format!("{line}:")), "{written}\n{}", refusal(&text));
    }
}

/// Neither of two hides the other, wherever they are.
#[test]
fn two_slips_are_two_mistakes() {
    let misspelt = |key: &str, value: &str| Some(format!("{key}x = {value}"));
    // Without its adapter a vendor's other keys are not known to be wrong.
    let slips = slips(|key, value| misspelt(key, value).filter(|_| key != "adapter"));
    let lines_of = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (index, (line, text)) in slips.iter().enumerate() {
        let (other, changed) = &slips[(index * 7 + 3) % slips.len()];
        let mut lines = lines_of(text);
        lines[other - 1] = lines_of(changed)[other - 1].clone();
        let told: BTreeSet<String> = places(&lines.join("\n")).into_iter().collect();
        let expected: BTreeSet<String> = [line, other].map(|line| format!("{line}:1")).into();
        assert_eq!(told, expected, "{}", refusal(&lines.join("\n")));
    }
}

#[test]
fn what_only_follows_from_a_mistake_is_not_told() {
    let head = "[vendors.stripe]\nsecret_env = 'S'\n";
    for (text, expected) in [
        // A key that is there, but not as it should be, is not missing.
        ("[vendors.stripe]\nsecret_evn = 'S'".to_owned(), &["2:1"][..]),
        ("[vendors.stripe]\nsecret_env = 3".to_owned(), &["2:14"]),
        ("[vendors.stripe]\nsecret = 'S'".to_owned(), &["2:1"]),
        ("[vendors.bigcommerce]\nsecret_env = 'S'\nstor_hash = 'a'".to_owned(), &["3:1"]),
        ("[vendors.x]\nadapter = 'strip'\nsecret_env = 'S'".to_owned(), &["2:11"]),
        ("[vendors.x]\nadapter = 'keyed'\nbase_ulr = 'https://x.test'".to_owned(), &["3:1"]),
        ("[vendor.stripe]\nsecret_env = 'S'".to_owned(), &["1:2"]),
        ("[stripe]\nsecret = 'S'".to_owned(), &["1:2", "2:1"]),
        ("[stripe]\nsecret_env = S".to_owned(), &["1:2", "2:14"]),
        // A limit is not compared with the default of one that was not understood.
        (format!("{head}policy.timeout = {{ attempt = 5, total = '10s' }}"), &["3:30"]),
        (format!("{head}policy.timeout = {{ atempt = '5s', total = '10s' }}"), &["3:20"]),
        (format!("{head}policy.timeout = {{ attempt = 5s, total = '10s' }}"), &["3:30"]),
        (format!("{head}policy.timeout = 3\npolicy.breaker.window = '5s'"), &["3:18"]),
        (format!("{head}preset = 'interctive'\npolicy.timeout.total = '15s'"), &["3:10"]),
        (format!("{head}policy.timeout = {{ connect = '40s', attempt = '200s', total = '150s' }}"), &["3:47"]),
        (
            "[vendors.x]\nadapter = 'keyed'\nbase_url = 'https://x.test'\nwindow = '1h'\nkey = { headr = 'K' }"
                .to_owned(),
            &["5:9"],
        ),
        (
            format!("{head}allow_plain_http = 'yes'\nbase_url = 'http://stripe.internal'"),
            &["3:20"],
        ),
        // A list without its bad items is not the list that was meant.
        (format!("{head}policy.backoff.steps = ['1q', '5s', '1s']"), &["3:25"]),
        // Two of one account, of which one's account was not understood.
        (
            format!("{head}[vendors.eu]\nadapter = 'stripe'\nsecret_env = 'T'\naccount = 3"),
            &["6:11"],
        ),
        // A table that is there twice says all of its keys twice.
        (format!("{head}account = 'a'\n{head}account = 'a'"), &["4:10"]),
    ] {
        assert_eq!(places(&text), expected, "{text}\n{}", refusal(&text));
    }
}

#[test]
fn what_does_not_follow_is_told_all_the_same() {
    let head = "[vendors.stripe]\nsecret_env = 'S'\n";
    for (text, expected) in [
        ("[vendors.bigcommerce]\nzzzzzzzz = 1".to_owned(), &["1:1", "1:10", "2:1"][..]),
        (format!("{head}policy.timeout = {{ attempt = '200s', connect = 3 }}"), &["3:30", "3:48"]),
        (format!("{head}[vendors.stripe.policy]\nlookups_max = 1000\npause.max = '0s'"), &["4:15", "5:13"]),
        (
            "[vendors.x]\nadapter = 'keyed'\nbase_url = 'https://x.test'\nkey_len_max = 3\nwindow = '1h'\n\
             reused = [{ jsn = 1 }, { status = 'a' }]"
                .to_owned(),
            &["4:15", "5:10", "6:13", "6:35"],
        ),
        // The second table's own mistake.
        (format!("{head}{head}zzzzzzzz = 1"), &["3:10", "5:1"]),
    ] {
        assert_eq!(places(&text), expected, "{text}\n{}", refusal(&text));
    }
}

#[test]
fn behind_what_is_not_toml_nothing_is_guessed() {
    let said = |text: &str| refusal(text).replace("vendors.toml:", "");
    // The rest would be read into the wrong table, or not at all.
    for (text, expected) in [
        (
            "zzzzzzzz = 1\n[vendors.stripe\nsecret_env = 'S'\nacount = 1",
            "1:1: unknown key `zzzzzzzz` in the file's top table; expected one of `namespace`, `store`, \
             `seal_keys_env`, `vendors`\n\
             2:16: not TOML: unclosed table, expected `]`; what comes after it was not read",
        ),
        (
            "[vendors.stripe]\npolicy.timeout.total = '1s'\nsecret_env 'S'\nacount = 1",
            "3:12: not TOML: key with no value, expected `=`; what comes after it was not read",
        ),
        (
            "[vendors.stripe]\nredact = ['a',\nsecret_env = 'S'\n[vendors.postmark]\nacount = 1",
            "3:12: not TOML: unexpected `=` in array, expected value, `]`; what comes after it was not read",
        ),
        (
            "[vendors.stripe]\nsecret_env: 'S'\n\n# nothing more\n",
            "2:13: not TOML: key with no value, expected `=`",
        ),
    ] {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn twenty_are_told_and_that_there_are_more() {
    let of = |count: usize| {
        let keys: String = (0..count).map(|number| format!("zzzzzzzz{number} = 1\n")).collect();
        refusal(&format!("[vendors.stripe]\nsecret_env = 'S'\n{keys}"))
    };
    assert_eq!(of(20).lines().count(), 20);
    assert!(of(20).lines().all(|line| line.contains("unknown key")));
    for many in [21, 22, 4_000] {
        let said = of(many);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 21);
        assert!(lines[0].starts_with("vendors.toml:3:1: unknown key `zzzzzzzz0`"), "{}", lines[0]);
        assert_eq!(lines[20], "vendors.toml: there are more mistakes; mend these and check again");
    }
    let bad: String = (0..4_000).map(|number| format!("k{number} = bad\n")).collect();
    assert_eq!(refusal(&format!("[vendors.stripe]\n{bad}")).lines().count(), 21);
    assert_eq!(refusal(&format!("[vendors.stripe]\nx = [{}]", "bad,".repeat(4_000))).lines().count(), 21);
    assert_eq!(refusal(&"[vendors.stripe]\n".repeat(2_000)).lines().count(), 21);
    // Behind what is not TOML nothing is told, and nothing is looked for at length.
    let unread: String = (0..4_000).map(|number| format!("k{number} = 1\n")).collect();
    let said = refusal(&format!("[vendors.stripe]]\n{unread}"));
    assert_eq!(said.lines().count(), 1, "{said}");
    let tables: String = (0..2_000).map(|number| format!("[zzzzzzzz{number}]\n")).collect();
    assert_eq!(refusal(&tables).lines().count(), 21);
}

#[test]
fn a_vendors_table_at_the_top_is_read_as_what_it_was_meant_to_be() {
    for (text, expected) in [
        ("[stripe]\nsecret_env = 'S'", "1:2: unknown table [stripe]; a vendor's table is [vendors.stripe]"),
        (
            "[[stripe]]\nsecret_env = 'S'\n[vendors.stripe]\nsecret_env = 'S'",
            "1:3: unknown table [stripe]; a vendor's table is [vendors.stripe]",
        ),
        (
            "stripe = { secret_env = 'S', acount = 1 }",
            "1:1: unknown table [stripe]; a vendor's table is [vendors.stripe]\n\
             1:30: unknown key `acount` in [vendors.stripe]; did you mean `account`?",
        ),
        (
            "[vendors.stripe]\nsecret_env = 'S'\n[stripe.policy]\nbreaker = false",
            "3:2: unknown table [stripe]; a vendor's table is [vendors.stripe]",
        ),
        (
            "[policy.timeout]\ntotal = '1s'\n[vendors.stripe]\nsecret_env = 'S'",
            "1:2: unknown key `policy` in the file's top table; it belongs in a vendor's table, such as \
             [vendors.stripe]",
        ),
        (
            "[vendors.stripe]\nsecret_env = 'S'\n[vendors.stripe.policy]\nstore = 'memory'",
            "4:1: unknown key `store` in [vendors.stripe.policy]; it belongs at the top of the file, above the \
             first [table]",
        ),
    ] {
        let expected: Vec<String> = expected.lines().map(|line| format!("vendors.toml:{line}")).collect();
        assert_eq!(refusal(text), expected.join("\n"), "{text}");
    }
}

#[test]
fn a_file_without_vendors_is_a_mistake() {
    let problem = "the file has no vendors; write a table for each, such as [vendors.stripe] with \
                   `secret_env = \"STRIPE_SECRET_KEY\"` in it";
    for (text, place) in [
        ("", "1:1"),
        ("# nothing\n\n", "1:1"),
        ("namespace = 'prod'\n", "1:1"),
        ("namespace = 'prod'\n[vendors]\n", "2:2"),
        ("vendors = {}", "1:1"),
    ] {
        assert_eq!(refusal(text), format!("vendors.toml:{place}: {problem}"), "{text}");
    }
}
