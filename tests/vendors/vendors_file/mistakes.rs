//! The words on each mistake: exactly, since these words are what somebody reads at night.

use steadfast::Vendors;

use crate::vendors_file::refusal;

#[test]
fn each_mistake_is_answered_with_its_place_and_what_would_be_right() {
    for (text, expected) in MISTAKES {
        let text = text.replace("HEAD", "[vendors.stripe]\nsecret_env = \"S\"\n");
        // The forms that a build with Postgres knows besides.
        let postgres = ", or \"postgres://shop@db.internal/shop?schema=payments\", or \"memory\"";
        let is_list = cfg!(feature = "postgres") && expected.contains("write \"sqlite:\" and a path");
        let expected =
            &if is_list { expected.replace(", or \"memory\"", postgres) } else { (*expected).to_owned() };
        let expected: Vec<String> = expected.lines().map(|line| format!("vendors.toml:{line}")).collect();
        assert_eq!(refusal(&text), expected.join("\n"), "{text}");
    }
}

#[test]
fn a_place_is_the_same_whatever_ends_the_lines_and_stands_before_it() {
    let expected = "unknown key `acount` in [vendors.stripe]; did you mean `account`?";
    for (text, place) in [
        ("[vendors.stripe]\nacount = 1\nsecret_env = 'S'", "2:1"),
        ("[vendors.stripe]\r\nacount = 1\r\nsecret_env = 'S'\r\n", "2:1"),
        ("[vendors.stripe]\r\n\t\tacount = 1\r\nsecret_env = 'S'\r\n", "2:3"),
        ("\u{feff}vendors.stripe.acount = 1\nvendors.stripe.secret_env = 'S'", "1:16"),
        ("# ä🦀\n[vendors]\nstripe = { account = 'ä🦀é', acount = 'x', secret_env = 'S' }", "3:29"),
    ] {
        assert_eq!(refusal(text), format!("vendors.toml:{place}: {expected}"), "{text:?}");
    }
}

#[test]
fn no_error_repeats_what_may_be_a_secret() {
    for text in [
        "[vendors.stripe]\nsecret = \"hunter2\"",
        "[vendors.stripe]\nsecret_env = \"hunter2\"",
        "[vendors.stripe]\nsecret_env = [\"hunter2\"]",
        "[vendors.stripe]\nsecret_env = \"hunter2",
        "[vendors.stripe]\nsecret_env = hunter2",
        "[vendors]\nstripe = \"hunter2\"",
        "[vendors.stripe]\nzzz = 1\npolicy.Password = \"hunter2\"",
        "[vendors.stripe]\nsecret_env = 'S'\nbase_url = \"https://u:hunter2@x.test\"",
        "store = 'postgres://u:hunter2@x.test/db'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'sqlit:u:hunter2@x.test/db'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = ' postgres://app:hunter2@db/prod'",
        "store = ' postgres://db/prod?password=hunter2 '",
        "store = 'sqlite:///x.db?key=hunter2'",
        "store = 'sqlite:x.db?key=hunter2'",
        "store = 'sqlit:///x.db?key=hunter2'",
        "store = 'x.db?key=hunter2'",
        "store = 'sqlite://app:hunter2@db/x'",
        "store = 'sqlite: app:hunter2@db/x'",
        "store = ' sqlite:app:hunter2@db/x'",
        "store = 'hunter2@db/x'",
        "store = 'Server=db/x;Password=hunter2'",
        "store = 'sqlite://Data Source=x.db;Password=hunter2'",
        "seal_keys = 'hunter2'",
        "seal_keys_env = 'hunter2'",
        "api_key = 'hunter2'\n[vendors.stripe]\npassword = 'hunter2'\nacount = 1",
    ] {
        let error = Vendors::parse(text, "vendors.toml").expect_err(text);
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let said: Vec<String> = chain.map(|error| format!("{error} {error:?}")).collect();
        assert!(!said.concat().contains("hunter2"), "{said:?}");
    }
}

/// A file (`HEAD` is the two lines of a Stripe without fault), and what is said of it after the file's name.
const MISTAKES: &[(&str, &str)] = &[
    (
        "HEAD[vendors.stripe.policy.timeout]\n  atempt = \"1s\"",
        "4:3: unknown key `atempt` in [vendors.stripe.policy.timeout]; did you mean `attempt`?",
    ),
    (
        "HEAD[vendors.stripe.policy.timeout]\n  zzzzzzzzzzz = \"1s\"",
        "4:3: unknown key `zzzzzzzzzzz` in [vendors.stripe.policy.timeout]; expected one of `connect`, `attempt`, `total`",
    ),
    ("HEADacount = \"x\"", "3:1: unknown key `acount` in [vendors.stripe]; did you mean `account`?"),
    (
        "HEADzzzzzzzzzzz = \"x\"",
        "3:1: unknown key `zzzzzzzzzzz` in [vendors.stripe]; expected one of `adapter`, `secret_env`, `preset`, `allow_plain_http`, `former_base_urls`, `redact`, `retention`, `policy`, `routes`, `base_url`, `account`, `api_version`, `replay_window`, `settle_time`, `lookup_by_metadata`",
    ),
    (
        "HEAD[vendors.stripe.timeout]\nattempt = \"1s\"",
        "3:17: unknown key `timeout` in [vendors.stripe]; it belongs in [vendors.stripe.policy]",
    ),
    (
        "namspace = 'x'\nHEAD",
        "1:1: unknown key `namspace` in the file's top table; did you mean `namespace`?",
    ),
    (
        "zzzzzzzzzzz = 1\nHEAD",
        "1:1: unknown key `zzzzzzzzzzz` in the file's top table; expected one of `namespace`, `store`, `seal_keys_env`, `vendors`",
    ),
    (
        "HEAD[vendors.stripe.policy.timeout]\nattempt = \"5 minuts\"",
        r#"4:11: `attempt` in [vendors.stripe.policy.timeout]: "5 minuts" is not a duration; did you mean "5 minutes"?"#,
    ),
    (
        "HEADpolicy.timeout.attempt = 5",
        r#"3:26: `attempt` in [vendors.stripe.policy.timeout]: 5 is not a duration; a duration needs a unit, such as "5s" or "5ms""#,
    ),
    (
        "HEADpolicy.timeout.attempt = \"5\"",
        r#"3:26: `attempt` in [vendors.stripe.policy.timeout]: "5" is not a duration; a duration needs a unit, such as "5s" or "5ms""#,
    ),
    (
        "HEADpolicy.timeout.attempt = 1.5",
        r#"3:26: `attempt` in [vendors.stripe.policy.timeout]: 1.5 is not a duration; write a number with its unit, such as "500ms", "30s" or "5m""#,
    ),
    (
        "HEADpolicy.timeout.attempt = -5",
        r#"3:26: `attempt` in [vendors.stripe.policy.timeout]: -5 is not a duration; write a number with its unit, such as "500ms", "30s" or "5m""#,
    ),
    (
        "HEADpolicy.timeout.attempt = true",
        r#"3:26: `attempt` in [vendors.stripe.policy.timeout]: true is not a duration; write a number with its unit, such as "500ms", "30s" or "5m""#,
    ),
    (
        "HEADpolicy.backoff.steps = [\"1s\", \"2 sekonds\"]",
        r#"3:31: `steps` in [vendors.stripe.policy.backoff]: "2 sekonds" is not a duration; did you mean "2 seconds"?"#,
    ),
    (
        "HEADsettle_time = \"soon\"",
        r#"3:15: `settle_time` in [vendors.stripe]: "soon" is not a duration; write a number with its unit, such as "500ms", "30s" or "5m""#,
    ),
    (
        "HEAD[vendors.stripe.policy.timeout]\nattempt = \"200s\"",
        "4:11: `timeout.attempt` in [vendors.stripe.policy]: 200s is longer than timeout.total, 120s",
    ),
    (
        "HEAD[vendors.stripe.policy.timeout]\ntotal = \"10s\"",
        "4:9: `timeout.attempt` in [vendors.stripe.policy]: 30s is longer than timeout.total, 10s",
    ),
    (
        "HEADpolicy.breaker = { window = \"5s\" }",
        "3:29: `breaker.window` in [vendors.stripe.policy]: 5s is shorter than timeout.attempt, 30s: calls would leave the window before they time out",
    ),
    (
        "HEADpolicy.backoff.steps = [\"2s\", \"1s\"]",
        "3:31: `backoff.steps[1]` in [vendors.stripe.policy]: 1s is shorter than the step before it, 2s",
    ),
    (
        "HEADpolicy.budget.ratio = nan",
        "3:23: `budget.ratio` in [vendors.stripe.policy]: NaN is not between 0 and 1",
    ),
    (
        "HEADpolicy.record.keep = \"1s\"",
        "3:22: `record.keep` in [vendors.stripe.policy]: 1s is shorter than the waits of backoff.steps together, 37.5s",
    ),
    (
        "HEADpolicy.record.keep = \"24h\"",
        "3:22: `record.keep` in [vendors.stripe.policy]: 86400s is shorter than 86520s: the vendor replays a key for 86400s, and a call takes up to 120s",
    ),
    (
        "HEADretention = { \"/v1/charges\" = \"30days\", \"/v1/refunds\" = \"1h\" }",
        "3:57: `/v1/refunds` in [vendors.stripe.retention]: 3600s is shorter than 86520s: the vendor replays a key for 86400s, and a call takes up to 120s",
    ),
    (
        "HEADretention = { \"charges\" = \"30days\" }",
        "3:27: `charges` in [vendors.stripe.retention]: a route starts with a slash, and has no query",
    ),
    (
        "HEADretention = { \"/v1/charges\" = \"a week\" }",
        r#"3:31: `/v1/charges` in [vendors.stripe.retention]: "a week" is not a duration; write a number with its unit, such as "500ms", "30s" or "5m""#,
    ),
    (
        "HEADpolicy.breaker = true",
        "3:18: `breaker` in [vendors.stripe.policy] must be false, or the settings themselves, not true; leave it out for the default",
    ),
    (
        "HEADpolicy.breaker = \"off\"",
        r#"3:18: `breaker` in [vendors.stripe.policy] must be false, or the settings themselves, not "off""#,
    ),
    (
        "HEADpolicy.lookups_max = -1",
        "3:22: `lookups_max` in [vendors.stripe.policy] must be a whole number from 0 to 4294967295, not -1",
    ),
    (
        "HEADpolicy.lookups_max = \"3\"",
        r#"3:22: `lookups_max` in [vendors.stripe.policy] must be a whole number from 0 to 4294967295, not "3""#,
    ),
    (
        "HEADpolicy.breaker = { probes = \"3\" }",
        r#"3:29: `probes` in [vendors.stripe.policy.breaker] must be a whole number from 0 to 4294967295, not "3""#,
    ),
    (
        "HEADpolicy.breaker = { probe = 3 }",
        "3:20: unknown key `probe` in [vendors.stripe.policy.breaker]; did you mean `probes`?",
    ),
    ("HEADpolicy.timeout = 3", "3:18: `timeout` in [vendors.stripe.policy] must be a table, not 3"),
    ("HEADpolicy = 3", "3:10: `policy` in [vendors.stripe] must be a table, not a number"),
    (
        "HEADpolicy.breaker.slow_call = { over = \"1s\" }",
        "3:28: `rate` is missing from [vendors.stripe.policy.breaker.slow_call]",
    ),
    (
        "HEADpolicy.backoff.jitter = \"ful\"",
        r#"3:25: `jitter` in [vendors.stripe.policy.backoff] cannot be "ful"; did you mean `full`?"#,
    ),
    (
        "HEADpreset = \"backround\"",
        r#"3:10: `preset` in [vendors.stripe] cannot be "backround"; did you mean `background`?"#,
    ),
    (
        "HEADpreset = \"zzzzzzzzzz\"",
        r#"3:10: `preset` in [vendors.stripe] cannot be "zzzzzzzzzz"; expected one of `background`, `interactive`"#,
    ),
    (
        "[vendors.x]\nadapter = \"strip\"",
        r#"2:11: `adapter` in [vendors.x] cannot be "strip"; did you mean `stripe`?"#,
    ),
    (
        "[vendors.x]\nsecret_env = \"S\"",
        r#"1:10: [vendors.x] names no adapter; add `adapter = "keyed"`, or one of `stripe`, `postmark`, `bigcommerce`, `adyen`"#,
    ),
    (
        "[vendors.strpe]\nsecret_env = \"S\"",
        r#"1:10: [vendors.strpe] names no adapter; did you mean [vendors.stripe], or `adapter = "stripe"`?"#,
    ),
    (
        "[vendors.stripe]",
        r#"1:10: `secret_env` is missing from [vendors.stripe]; name the environment variable that holds the secret, such as `secret_env = "STRIPE_SECRET"`"#,
    ),
    (
        "[vendors.stripe]\n  secret = \"sk_live_1\"",
        r#"2:3: `secret` in [vendors.stripe] would put a secret into this file; keep it in an environment variable and name that here: `secret_env = "STRIPE_SECRET"`"#,
    ),
    (
        "[vendors.postmark]\nserver-token = \"abc\"",
        r#"2:1: `server-token` in [vendors.postmark] would put a secret into this file; keep it in an environment variable and name that here: `secret_env = "POSTMARK_SECRET"`"#,
    ),
    (
        "[vendors.stripe]\nsecret_env = \"sk_live_1\"",
        r#"2:14: `secret_env` in [vendors.stripe]: it takes the name of an environment variable in capitals, digits and `_`, such as "STRIPE_SECRET_KEY"; if this is the secret itself, take it out of the file and replace it at the vendor"#,
    ),
    (
        "[vendors.stripe]\nsecret_env = [\"S\"]",
        "2:14: `secret_env` in [vendors.stripe] must be text in quotes, not a list",
    ),
    ("HEAD\nHEAD", "4:10: duplicate vendor `stripe`; it is already declared on line 1"),
    (
        "HEADsecret_env = \"T\"",
        "3:1: duplicate key `secret_env` in [vendors.stripe]; it is already set on line 2",
    ),
    (
        "[vendors.a]\nadapter = \"stripe\"\nsecret_env = \"S\"\n[vendors.b]\nadapter = \"stripe\"\nsecret_env = \"T\"",
        "4:10: [vendors.b] has the same adapter and account as [vendors.a], so that their operations could not be told apart; give each its own `account`",
    ),
    ("[vendors]\nstripe = 3", "2:10: `stripe` in [vendors] must be a table, not a number"),
    (
        "vendors = 3",
        "1:11: `vendors` in the file's top table must be a table, not a number; write each vendor as [vendors.<name>]",
    ),
    (
        "[[vendors]]\nname = \"stripe\"",
        "1:1: `vendors` in the file's top table must be a table, not a list; write each vendor as [vendors.<name>]",
    ),
    (
        "[vendors.\"a/b\"]\nadapter = \"stripe\"\nsecret_env = \"S\"",
        r#"1:10: vendor `a/b`: it must be 1 to 64 letters, digits, `_`, `-` or `.`, such as "prod-eu""#,
    ),
    (
        "namespace = \"a/b\"\nHEAD",
        r#"1:13: `namespace`: it must be 1 to 64 letters, digits, `_`, `-` or `.`, such as "prod-eu""#,
    ),
    ("namespace = 3\nHEAD", r#"1:13: `namespace`: it must be text in quotes, such as "prod""#),
    (
        "store = 3\nHEAD",
        r#"1:9: `store`: it must be text in quotes, such as "sqlite:vendor-calls.db", not a number"#,
    ),
    (
        "[store]\nHEAD",
        r#"1:1: `store`: it must be text in quotes, such as "sqlite:vendor-calls.db", not a table"#,
    ),
    (
        "store = \"sqlite:\"\nHEAD",
        r#"1:9: `store`: it needs the file's path, such as "sqlite:vendor-calls.db""#,
    ),
    (
        "store = \"sqlite\"\nHEAD",
        r#"1:9: `store`: it needs the file's path, such as "sqlite:vendor-calls.db""#,
    ),
    (
        "store = \"sqlite://var/x.db\"\nHEAD",
        r#"1:9: `store`: a path follows `sqlite:`; did you mean "sqlite:var/x.db"?"#,
    ),
    (
        "store = \"sqlite: x.db\"\nHEAD",
        r#"1:9: `store`: a path follows `sqlite:`; did you mean "sqlite:x.db"?"#,
    ),
    ("store = \" memory\"\nHEAD", r#"1:9: `store`: it begins or ends with a space; did you mean "memory"?"#),
    (
        "store = \"sqlite:x.db?mode=rwc\"\nHEAD",
        r#"1:9: `store`: no options follow the path but `?network_fs=allow`; did you mean "sqlite:x.db"?"#,
    ),
    (
        "store = \"sqlite::memory:\"\nHEAD",
        r#"1:9: `store`: SQLite keeps that in memory; did you mean "memory"?"#,
    ),
    ("store = \"sqlite:~/x.db\"\nHEAD", "1:9: `store`: `~` is not expanded; write the whole path"),
    ("store = \"sqlite:a\\nb\"\nHEAD", "1:9: `store`: the path has a character that cannot be printed"),
    ("store = \"memory:x\"\nHEAD", r#"1:9: `store`: nothing follows `memory`; did you mean "memory"?"#),
    ("store = \"memry\"\nHEAD", r#"1:9: `store`: did you mean "memory"?"#),
    ("store = \"sqllite:x.db\"\nHEAD", r#"1:9: `store`: did you mean "sqlite:x.db"?"#),
    ("store = \"SQLite:x.db\"\nHEAD", r#"1:9: `store`: did you mean "sqlite:x.db"?"#),
    (
        "store = \"data/x.db\"\nHEAD",
        r#"1:9: `store`: it names no kind of store; did you mean "sqlite:data/x.db"?"#,
    ),
    (
        "store = \"mysql://u:hunter2@db/x\"\nHEAD",
        r#"1:9: `store`: this build opens no store `mysql`; write "sqlite:" and a path, such as "sqlite:vendor-calls.db", or "memory""#,
    ),
    #[cfg(feature = "postgres")]
    (
        "store = \"postgres://u:hunter2@db/x\"\nHEAD",
        "1:9: `store`: the password does not belong in this file; leave it out, and set PGPASSWORD, or name a file of passwords with `passfile=`",
    ),
    (
        "store = \"\"\nHEAD",
        r#"1:9: `store`: write "sqlite:" and a path, such as "sqlite:vendor-calls.db", or "memory""#,
    ),
    (
        "store = \"hunter2\"\nHEAD",
        r#"1:9: `store`: write "sqlite:" and a path, such as "sqlite:vendor-calls.db", or "memory""#,
    ),
    ("stor = \"memory\"\nHEAD", "1:1: unknown key `stor` in the file's top table; did you mean `store`?"),
    (
        "HEADstore = \"memory\"",
        "3:1: unknown key `store` in [vendors.stripe]; it belongs at the top of the file, above the first [table]",
    ),
    (
        "seal_keys = \"0f0f\"\nstore = \"sqlite:x.db\"\nHEAD",
        "1:1: `seal_keys` in the file's top table would put a secret into this file; keep it in an environment variable and name that here: `seal_keys_env = \"STEADFAST_SEAL_KEYS\"`",
    ),
    (
        "HEADbase_url = \"http://stripe.test\"",
        "3:12: `base_url` in [vendors.stripe]: http outside loopback sends secrets readable; use https or `allow_plain_http = true`",
    ),
    (
        "HEADbase_url = \"https://u:hunter2@stripe.test\"",
        "3:12: `base_url` in [vendors.stripe]: it must not contain credentials; give the secret to the adapter",
    ),
    (
        "HEADbase_url = \"stripe.test\"",
        r#"3:12: `base_url` in [vendors.stripe]: it lacks its scheme; write it whole, as "https://api.stripe.com""#,
    ),
    ("HEADredact = [\"a\", \"\"]", "3:10: `redact` in [vendors.stripe]: a field's name must not be empty"),
    (
        "HEADapi_version = \"a\\nb\"",
        "3:15: `api_version` in [vendors.stripe]: Stripe-Version: a character that a header cannot carry",
    ),
    (
        "[vendors.bigcommerce]\nsecret_env = \"S\"\nstore_hash = \"a/b\"",
        "3:14: `store_hash` in [vendors.bigcommerce]: the store hash must be letters and digits; it stands in the API path that BigCommerce shows with an API account, https://api.bigcommerce.com/stores/{store_hash}/v3/, and in the control panel's address, https://store-{store_hash}.mybigcommerce.com",
    ),
    (
        "[vendors.bigcommerce]\nsecret_env = \"S\"",
        "1:1: `store_hash` is missing from [vendors.bigcommerce]; it stands in the API path that BigCommerce shows with an API account, https://api.bigcommerce.com/stores/{store_hash}/v3/, and in the control panel's address, https://store-{store_hash}.mybigcommerce.com",
    ),
    (
        "[vendors.postmark]\nsecret_env = \"S\"\nmessage_id_domain = \"a b\"",
        "3:21: `message_id_domain` in [vendors.postmark]: Message-ID: the domain is not one",
    ),
    ("[vendors.x]\nadapter = \"keyed\"", "1:1: `base_url` is missing from [vendors.x]"),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nkey = { headr = \"K\" }",
        "4:9: unknown key `headr` in [vendors.x.key]; did you mean `header`?",
    ),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nkey = { header = \"K\" }\nreused = [{ status = 409 }, { jsn = 1 }]",
        "5:31: unknown key `jsn` in [vendors.x.reused]; did you mean `json`?",
    ),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nkey = { header = \"K\" }\nreused = [{ status = 70000 }]",
        "5:22: `status` in [vendors.x.reused] must be a whole number from 0 to 65535, not 70000",
    ),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nkey = { header = \"K K\" }",
        r#"4:18: `key.header` in [vendors.x]: "K K" is not the name of a header"#,
    ),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nkey = { header = \"K\" }\nreused = [{ status = 409 },\n  { status = 20 }]",
        "6:3: `reused[1]` in [vendors.x]: 20 is not an HTTP status",
    ),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nwindow = \"1h\"",
        "4:10: `window` in [vendors.x]: without `key` the vendor has nothing to replay",
    ),
    (
        "[vendors.x]\nadapter = \"keyed\"\nbase_url = \"https://x.test\"\nauth = { header = \"A\" }",
        r#"1:10: `secret_env` is missing from [vendors.x]; name the environment variable that holds the secret, such as `secret_env = "X_SECRET"`"#,
    ),
    ("[vendors.stripe\n", "1:16: not TOML: unclosed table, expected `]`"),
    ("[vendors.stripe]\nsecret_env = \"STRIPE", r#"2:21: not TOML: invalid basic string, expected `"`"#),
    ("HEADaccount = \n", "3:11: not TOML: string values must be quoted, expected literal string"),
    (
        "[vendors.stripe]\r\nsecret_env = \"S\"\r\n\tacount = 1\r\n",
        "3:2: unknown key `acount` in [vendors.stripe]; did you mean `account`?",
    ),
    (
        "[vendors]\nstripe = { account = 'ä🦀', acount = 'x', secret_env = 'S' }",
        "2:28: unknown key `acount` in [vendors.stripe]; did you mean `account`?",
    ),
];
