//! The schema is written by hand, for its words; these tests hold it to the code.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use steadfast::policy::RateConfig;
use steadfast::{Policy, Vendors};

use crate::vendors_file::{example, load, refusal};

const STRIPE: &str = "[vendors.stripe]\nsecret_env = 'S'\n";
const POSTMARK: &str = "[vendors.postmark]\nsecret_env = 'S'\n";
const BIGCOMMERCE: &str = "[vendors.bigcommerce]\nsecret_env = 'S'\nstore_hash = 'abc'\n";
const ADYEN: &str = "[vendors.adyen]\nsecret_env = 'S'\n";
const KEYED: &str = "[vendors.keyed]\nbase_url = 'https://v.test'\n";

/// The policy's tables that are on by default.
const ON: [&str; 8] = ["backoff", "timeout", "pause", "breaker", "budget", "recovery", "limits", "record"];

/// The keys without a default: if one is left out, something else decides, or it must be given.
const WITHOUT_DEFAULT: [&str; 42] = [
    "adapter",
    "secret_env",
    "policy",
    "account",
    "api_version",
    "message_id_domain",
    "store_hash",
    "live_prefix",
    "name",
    "base_url",
    "auth",
    "key",
    "window",
    "account_headers",
    "keyed_routes",
    "replay",
    "own",
    "status",
    "header",
    "json",
    "pointer",
    "value",
    "over",
    "rate",
    "burst",
    "vendors",
    "backoff",
    "timeout",
    "retention",
    "preset",
    "attempt",
    "total",
    "says",
    "has",
    // Tables of vendors.
    "adyen",
    "checkout",
    "gocardless",
    "increase",
    "paypal",
    "plaid",
    "resend",
    "square",
];

fn schema() -> Value {
    serde_json::from_str(Vendors::SCHEMA).expect("JSON")
}

fn properties<'a>(schema: &'a Value, table: &str) -> &'a Map<String, Value> {
    schema["$defs"][table]["properties"].as_object().expect(table)
}

/// The names in `expected one of …`, from a file with a key that is far from all of them.
fn names_in_code(text: &str) -> BTreeSet<String> {
    let said = refusal(text);
    let list = said.lines().find_map(|line| line.split_once("; expected "));
    let (_, list) = list.unwrap_or_else(|| panic!("{said}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn to_json(text: &str) -> Value {
    let table: toml::Table = text.parse().expect("TOML");
    serde_json::to_value(table).expect("JSON")
}

/// `key = default` for each key of a table whose default is a plain value.
fn defaults(schema: &Value, table: &str) -> String {
    let plain = |property: &&Value| !property["default"].is_null() && !property["default"].is_object();
    let all = properties(schema, table).iter().filter(|(_, property)| plain(property));
    all.map(|(key, property)| format!("{key} = {}\n", property["default"])).collect()
}

#[test]
fn it_is_a_schema_and_the_example_keeps_to_it() {
    let schema = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let problems: Vec<String> =
        validator.iter_errors(&to_json(&example())).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn it_refuses_what_an_editor_can_know_to_be_wrong() {
    let validator = jsonschema::draft202012::new(&schema()).expect("a schema");
    assert!(validator.is_valid(&to_json(STRIPE)));
    for store in
        ["memory", "memory:", "sqlite:x.db", "sqlite:/var/lib/x.db", "sqlite:///var/x.db", "sqlite:../x.db"]
    {
        let text = format!("store = '{store}'\n{STRIPE}");
        assert!(validator.is_valid(&to_json(&text)), "{text}");
        load(&text);
    }
    for wrong in [
        "",
        "namespace = 'a/b'\n[vendors.stripe]\nsecret_env = 'S'",
        "namspace = 'x'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'sqlite:'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'sqlite://x.db'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'sqlite::memory:'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'mysql://x'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'postgres://u:p@x/db'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'postgres:x'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'memory:x'\n[vendors.stripe]\nsecret_env = 'S'",
        "seal_keys_env = 'KEYS'\n[vendors.stripe]\nsecret_env = 'S'",
        "store = 'sqlite:x.db'\nseal_keys_env = 'x'\n[vendors.stripe]\nsecret_env = 'S'",
        "[stripe]\nsecret_env = 'S'",
        "[vendors]",
        "[vendors.x]\nsecret_env = 'S'",
        "[vendors.stripe]",
        "[vendors.stripe]\nsecret_env = 'sk_live_1'",
        "[vendors.stripe]\nsecret = 'S'",
        "[vendors.stripe]\nsecret_env = 'S'\nstore_hash = 'abc'",
        "[vendors.x]\nadapter = 'bigcommerce'\nsecret_env = 'S'",
        "[vendors.x]\nadapter = 'adyen'\nsecret_env = 'S'\nlive_prefix = 'https://x'",
        "[vendors.x]\nadapter = 'keyed'\nbase_url = 'https://v.test'\nauth = { header = 'A' }",
        "[vendors.x]\nadapter = 'keyed'\nbase_url = 'https://v.test'\nreused = [{}]",
        "[vendors.stripe]\nsecret_env = 'S'\npolicy.timeout.attempt = '5 minuts'",
        "[vendors.stripe]\nsecret_env = 'S'\npolicy.timeout.attempt = 5",
        "[vendors.stripe]\nsecret_env = 'S'\npolicy.breaker = true",
    ] {
        assert!(!validator.is_valid(&to_json(wrong)), "{wrong}");
        assert!(refusal(wrong).starts_with("vendors.toml:"), "{}", refusal(wrong));
    }
}

#[test]
fn every_table_has_the_keys_that_the_code_reads() {
    let schema = schema();
    let odd = "zzzzzzzzzzzzzzzz = 1";
    let in_policy = |table: &str| format!("{STRIPE}[vendors.stripe.policy.{table}]\n{odd}");
    let mut texts = vec![
        ("stripe", format!("{STRIPE}{odd}")),
        ("postmark", format!("{POSTMARK}{odd}")),
        ("bigcommerce", format!("{BIGCOMMERCE}{odd}")),
        ("adyen", format!("{ADYEN}{odd}")),
        ("keyed", format!("{KEYED}{odd}")),
        ("auth", format!("{KEYED}auth = {{ {odd} }}")),
        ("marker", format!("{KEYED}replay = {{ {odd} }}")),
        ("header_marker", format!("{KEYED}replay = {{ header = {{ {odd} }} }}")),
        ("json_marker", format!("{KEYED}replay = {{ json = {{ {odd} }} }}")),
        ("policy", format!("{STRIPE}[vendors.stripe.policy]\n{odd}")),
        ("slow_call", in_policy("breaker.slow_call")),
        ("route", format!("{STRIPE}[vendors.stripe.routes.'/v1']\n{odd}")),
        ("route_policy", format!("{STRIPE}[vendors.stripe.routes.'/v1'.policy]\n{odd}")),
        ("route_timeout", format!("{STRIPE}[vendors.stripe.routes.'/v1'.policy.timeout]\n{odd}")),
    ];
    texts.extend(ON.into_iter().chain(["rate", "concurrency"]).map(|table| (table, in_policy(table))));
    let mut held: BTreeSet<&str> = ["duration", "vendor"].into();
    for (table, text) in &texts {
        let keys: BTreeSet<String> = properties(&schema, table).keys().cloned().collect();
        assert_eq!(keys, names_in_code(text), "{table}");
        assert_eq!(schema["$defs"][*table]["additionalProperties"], json!(false), "{table}");
        held.insert(table);
    }
    let tables: BTreeSet<&str> =
        schema["$defs"].as_object().expect("tables").keys().map(String::as_str).collect();
    assert_eq!(tables, held, "a table that no test holds");
    let top: BTreeSet<String> =
        schema["properties"].as_object().expect("properties").keys().cloned().collect();
    assert_eq!(top, names_in_code(odd));
    let places = schema["$defs"]["keyed"]["properties"]["key"]["oneOf"].as_array().expect("places");
    let places =
        places.iter().flat_map(|place| place["properties"].as_object().expect("one").keys().cloned());
    assert_eq!(places.collect::<BTreeSet<_>>(), names_in_code(&format!("{KEYED}key = {{ {odd} }}")));
}

#[test]
fn every_choice_has_the_words_that_the_code_reads() {
    let schema = schema();
    let defs = &schema["$defs"];
    let odd = "'zzzzzzzzzzzzzzzz'";
    for (choice, text) in [
        (&defs["vendor"]["properties"]["adapter"], format!("[vendors.x]\nadapter = {odd}")),
        (&defs["stripe"]["properties"]["preset"], format!("{STRIPE}preset = {odd}")),
        (&defs["backoff"]["properties"]["jitter"], format!("{STRIPE}policy.backoff.jitter = {odd}")),
        (&defs["policy"]["properties"]["in_flight"], format!("{STRIPE}policy.in_flight = {odd}")),
        (&defs["route"]["properties"]["on_unknown"], format!("{STRIPE}routes.'/v1'.on_unknown = {odd}")),
        (&defs["route"]["properties"]["preset"], format!("{STRIPE}routes.'/v1'.preset = {odd}")),
        (&defs["postmark"]["properties"]["api"], format!("{POSTMARK}api = {odd}")),
        (&defs["keyed"]["properties"]["key_form"], format!("{KEYED}key_form = {odd}")),
    ] {
        let words = choice["enum"]
            .as_array()
            .expect("words")
            .iter()
            .map(|word| word.as_str().expect("text").to_owned());
        assert_eq!(words.collect::<BTreeSet<_>>(), names_in_code(&text));
    }
}

#[test]
fn every_default_is_the_codes_own() {
    let schema = schema();
    let policy =
        |rest: &str| load(&format!("{STRIPE}{rest}")).client("stripe").expect("a client").policy().clone();
    let mut all = format!("[vendors.stripe.policy]\n{}", defaults(&schema, "policy"));
    for table in ON {
        all += &format!("[vendors.stripe.policy.{table}]\n{}", defaults(&schema, table));
    }
    assert_eq!(policy(&all), Policy::background(), "{all}");
    assert_eq!(policy("policy.breaker = {}\npolicy.budget = {}"), Policy::background());
    let rate = policy(&format!("[vendors.stripe.policy.rate]\n{}", defaults(&schema, "rate")));
    assert_eq!(rate, Policy::background().rate(RateConfig::default()));
    let concurrency =
        policy(&format!("[vendors.stripe.policy.concurrency]\n{}", defaults(&schema, "concurrency")));
    assert_eq!(concurrency, Policy::background().concurrency(64));

    let shown = |name: &str, text: &str| format!("{:?}", load(text).builder(name).expect("a builder"));
    for (name, bare) in [
        ("stripe", STRIPE),
        ("postmark", POSTMARK),
        ("bigcommerce", BIGCOMMERCE),
        ("adyen", ADYEN),
        ("keyed", KEYED),
    ] {
        assert_eq!(shown(name, &format!("{bare}{}", defaults(&schema, name))), shown(name, bare), "{name}");
    }
    let auth = format!("[vendors.keyed.auth]\nheader = 'A'\n{}", defaults(&schema, "auth"));
    assert_eq!(
        shown("keyed", &format!("{KEYED}secret_env = 'S'\n{auth}")),
        shown("keyed", &format!("{KEYED}secret_env = 'S'\nauth = {{ header = 'A' }}"))
    );
}

#[test]
fn every_key_has_a_description_and_a_default_or_a_reason_for_none() {
    let schema = schema();
    for (table, definition) in schema["$defs"].as_object().expect("tables") {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{table}.{key}");
            let is_table = property.get("$ref").is_some_and(|target| target != "#/$defs/duration");
            let has_reason = is_table || WITHOUT_DEFAULT.contains(&key.as_str());
            assert!(property.get("default").is_some() || has_reason, "{table}.{key}");
        }
    }
}

#[test]
fn a_policys_table_written_one_too_high_is_sent_down() {
    for key in properties(&schema(), "policy").keys() {
        let said = refusal(&format!("{STRIPE}{key} = 1"));
        assert!(said.ends_with("it belongs in [vendors.stripe.policy]"), "{said}");
    }
}
