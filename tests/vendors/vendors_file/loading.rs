use std::time::Duration;

use proptest::prelude::*;
use steadfast::operation::record::Filter;
use steadfast::policy::{BreakerConfig, RateConfig, Timeouts};
use steadfast::testkit::ScriptedTransport;
use steadfast::{Policy, Vendors};

use crate::vendors_file::{load, refusal};

const STRIPE: &str = "[vendors.stripe]\nsecret_env = \"STRIPE_SECRET_KEY\"\n";

fn policy(rest: &str) -> Policy {
    load(&format!("{STRIPE}{rest}")).client("stripe").expect("a client").policy().clone()
}

#[test]
fn a_vendor_needs_no_more_than_the_name_of_its_variable() {
    assert_eq!(policy(""), Policy::background());
    assert_eq!(policy("preset = 'interactive'"), Policy::interactive());
}

#[test]
fn overrides_change_the_preset_field_by_field() {
    let seconds = Duration::from_secs;
    let interactive = policy("preset = 'interactive'\n[vendors.stripe.policy.timeout]\nattempt = '4s'");
    assert_eq!(
        interactive,
        Policy::interactive().timeout(Timeouts::new(seconds(1), seconds(4), seconds(10)))
    );
    let jitter = policy("preset = 'interactive'\npolicy.backoff.jitter = 'full'");
    assert_eq!(jitter.backoff.steps, Policy::interactive().backoff.steps);
    assert_ne!(jitter.backoff.jitter, Policy::interactive().backoff.jitter);
}

#[test]
fn a_part_is_switched_off_with_false_and_on_with_its_table() {
    assert_eq!(policy("policy.breaker = false"), Policy::background().without_breaker());
    assert_eq!(
        policy("policy.rate = { calls = 7 }"),
        Policy::background().rate(RateConfig::new(7, Duration::from_secs(1)))
    );
    assert_eq!(
        policy("policy.breaker = { slow_call = { over = '3s', rate = 0.25 } }"),
        Policy::background().breaker(BreakerConfig::default().slow_call(Duration::from_secs(3), 0.25))
    );
}

#[test]
fn a_secret_that_is_not_there_is_named_with_vendor_key_and_variable_when_it_is_asked_for() {
    let text = format!("{STRIPE}[vendors.postmark]\nsecret_env = 'POSTMARK_TOKEN'");
    let vendors = Vendors::parse(&text, "vendors.toml").expect("no secret is needed to load");
    let vendors = vendors.with_secrets(|variable| (variable == "POSTMARK_TOKEN").then(|| " ".to_owned()));
    for (name, expected) in [
        (
            "stripe",
            "vendors.toml:2:14: `secret_env` in [vendors.stripe]: the environment variable STRIPE_SECRET_KEY is \
             not set; set it to the vendor's secret",
        ),
        (
            "postmark",
            "vendors.toml:4:14: `secret_env` in [vendors.postmark]: the environment variable POSTMARK_TOKEN is \
             empty; set it to the vendor's secret",
        ),
    ] {
        let error = vendors.client(name).expect_err(name);
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.code(), "VALIDATION.config");
        assert!(error.is_validation());
    }
}

#[test]
fn without_a_lookup_of_its_own_the_process_environment_is_asked() {
    let text = "[vendors.stripe]\nsecret_env = 'STEADFAST_TEST_THAT_NOBODY_SETS'";
    let error = Vendors::parse(text, "v.toml").expect("it loads").client("stripe").expect_err("unset");
    assert!(error.to_string().contains("STEADFAST_TEST_THAT_NOBODY_SETS is not set"), "{error}");
    // Cargo sets this one for every test.
    let text = "[vendors.stripe]\nsecret_env = 'CARGO_MANIFEST_DIR'";
    Vendors::parse(text, "v.toml").expect("it loads").client("stripe").expect("set");
}

#[test]
fn a_secret_that_no_header_can_carry_is_refused_before_anything_is_sent_and_not_shown() {
    let vendors = load(STRIPE).with_secrets(|_| Some("sk_live_1\nX: y".to_owned()));
    let error = vendors.client("stripe").expect_err("a line break");
    assert_eq!(error.code(), "VALIDATION.secret");
    assert!(!format!("{error} {error:?} {vendors:?}").contains("sk_live"));
}

#[test]
fn a_vendor_that_is_not_there_is_answered_with_the_nearest() {
    let vendors = load(STRIPE);
    let said = |name: &str| vendors.client(name).expect_err(name).to_string();
    assert_eq!(said("strpe"), "vendors.toml: no vendor `strpe`; did you mean `stripe`?");
    assert_eq!(said("adyen"), "vendors.toml: no vendor `adyen`; there are `stripe`");
}

#[test]
fn a_vendor_without_auth_needs_no_secret() {
    let text = "[vendors.inside]\nadapter = 'keyed'\nbase_url = 'http://127.0.0.1:1'";
    let vendors = Vendors::parse(text, "v.toml").expect("it loads").with_secrets(|_| None);
    assert_eq!(vendors.client("inside").expect("a client").vendor(), "inside");
}

#[test]
fn plain_http_is_allowed_where_the_file_says_so() {
    let text = "base_url = 'http://stripe.internal'\nallow_plain_http = true";
    load(&format!("{STRIPE}{text}")).client("stripe").expect("allowed");
}

#[tokio::test]
async fn the_file_names_fields_that_are_never_shown() {
    let network = ScriptedTransport::new().status(200);
    let vendors = load(&format!("{STRIPE}redact = ['email']"));
    let stripe = vendors.builder("stripe").expect("a vendor").transport(network).build().expect("a client");
    stripe.post("/v1/customers").key("k").redact(["name"]).send().await.expect("a reply");
    let rows = stripe.store().list(&Filter::default(), None, 1).await.expect("works").rows;
    let record = stripe.store().get(&rows[0].id).await.expect("works").expect("a record");
    assert_eq!(record.redact.names(), ["email", "name"]);
}

#[test]
fn two_accounts_of_one_vendor_live_in_one_file() {
    let text = "[vendors.us]\nadapter = 'stripe'\nsecret_env = 'US'\naccount = 'acct_1'\n\
                [vendors.eu]\nadapter = 'stripe'\nsecret_env = 'EU'\naccount = 'acct_2'\n";
    assert_eq!(load(text).names().collect::<Vec<_>>(), ["eu", "us"]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = std::env::temp_dir().join(format!("steadfast-vendors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let said = |name: &str, bytes: Option<&[u8]>| {
        let path = folder.join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).expect("written");
        }
        let said = Vendors::from_file(&path).expect_err(name).to_string();
        said.replace(&format!("{}", path.display()), name)
    };
    assert_eq!(said("absent.toml", None), "absent.toml: cannot be read");
    assert_eq!(
        said("latin.toml", Some(b"# ok\n# \xe9")),
        "latin.toml:2:3: the file is not UTF-8 from here on"
    );
    assert_eq!(
        said("long.toml", Some(&vec![b'#'; 1024 * 1024 + 1])),
        "long.toml: the file is over the limit of 1048576 bytes"
    );
    assert_eq!(said("bad.toml", Some(b"x = 1")).split(':').next(), Some("bad.toml"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

proptest! {
    #[test]
    fn no_text_panics_the_parser(text in "\\PC*|[a-z\\[\\]={}\"'.,#\n\r\t 0-9é\u{feff}]{0,200}") {
        let _ = Vendors::parse(&text, "vendors.toml");
    }

    #[test]
    fn no_change_to_a_good_file_panics_the_parser(at in 0usize..12_000, put in "\\PC{0,3}|[\n\"\\]={}]{1,2}", cut in 0usize..40) {
        let text: Vec<char> = crate::vendors_file::example().chars().collect();
        let at = at.min(text.len());
        let rest = (at + cut).min(text.len());
        let changed: String = text[..at].iter().copied().chain(put.chars()).chain(text[rest..].iter().copied()).collect();
        let said = refusal(&changed);
        prop_assert!(said.starts_with("it loads") || said.starts_with("vendors.toml:"), "{}", said);
        if !said.starts_with("it loads") {
            prop_assert!(said.lines().all(|line| line.starts_with("vendors.toml:")), "{}", said);
            prop_assert!(said.lines().count() <= 21, "{}", said);
        }
    }
}

/// A variable of one's own process is set in no test, since others read the environment at the same time.
#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_not_called_unset() {
    use std::os::unix::ffi::OsStrExt as _;

    let this = std::env::current_exe().expect("this program");
    let only =
        ["--exact", "vendors_file::loading::in_a_process_with_a_variable_that_is_not_text", "--ignored"];
    let secret = std::ffi::OsStr::from_bytes(b"hunter2\xff");
    let output = std::process::Command::new(this).args(only).env("STRIPE_SECRET_KEY", secret).output();
    let output = output.expect("it runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("1 passed"), "{out}");
}

#[test]
#[ignore = "a_variable_that_is_not_text_is_not_called_unset runs it"]
fn in_a_process_with_a_variable_that_is_not_text() {
    let vendors = Vendors::parse(STRIPE, "vendors.toml").expect("good");
    let error = vendors.client("stripe").expect_err("not text");
    assert_eq!(
        error.to_string(),
        "vendors.toml:2:14: `secret_env` in [vendors.stripe]: the environment variable STRIPE_SECRET_KEY is not text: \
         it is not UTF-8; set it to the vendor's secret"
    );
    assert!(!format!("{error:#} {error:?}").contains("hunter2"));
    assert_eq!(vendors.rules().expect("rules need no secret").len(), 1);
    let sealed = "store = 'sqlite:x.db'\nseal_keys_env = 'STRIPE_SECRET_KEY'\n";
    let vendors = Vendors::parse(&format!("{sealed}{STRIPE}"), "vendors.toml").expect("good");
    let error = vendors.store().expect_err("not text");
    assert_eq!(
        error.to_string(),
        "vendors.toml:2:17: `seal_keys_env`: the environment variable STRIPE_SECRET_KEY is not text: it is not UTF-8; \
         set it to the keys of the store"
    );
}
