//! One vendor's table as a text of its own: `KeyedConfig::from_toml`.

use steadfast::vendor::KeyedConfig;

use crate::vendors_file::refusal;

fn refused(text: &str) -> String {
    match KeyedConfig::from_toml(text) {
        Ok(config) => format!("it is read: {config:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_wrong_is_told_as_it_is_of_the_file() {
    for body in [
        "windw = '1h'",
        "window = 1",
        "window = '1h'",
        "window = '0s'\nkey = { header = 'K' }",
        "key_len_max = 3",
        "key = { headr = 'K' }",
        "key = { header = 'K K' }",
        "key = { header = 'K' }\nreused = [{ status = 409 }, { jsn = 1 }]",
        "key = { header = 'K' }\nreused = [{ status = 70000 }]",
        "reused = [{ status = 409 },\n  { status = 20 }]",
        "replay = { json = { pointer = 'x', value = 'y' } }",
        "own = {}",
        "headers = { Authorization = 'x' }",
        "auth = { prefix = 'x' }",
        "keyed_routes = ['GET /x']\nkey = { header = 'K' }",
        "account = ",
        "account = 'a'\naccount = 'b'",
        "token = 5\nkey_len_max = 3\nwindw = '1h'",
    ] {
        let secret = if body.starts_with("auth") { "secret_env = 'S'" } else { "preset = 'background'" };
        let file = format!("[vendors.x]\nadapter = 'keyed'\n{secret}\nbase_url = 'https://x.test'\n{body}");
        let table = format!("adapter = 'keyed'\n\nname = 'x'\nbase_url = 'https://x.test'\n{body}");
        let of_file = refusal(&file).replace("vendors.toml:", "KeyedConfig:");
        let of_file = of_file.replace("[vendors.x]", "the table").replace("[vendors.x.", "[");
        let (of_file, of_table) = (without_remedy(&of_file), without_remedy(&refused(&table)));
        assert_eq!(of_table, of_file, "{table}");
        assert!(of_table.starts_with("KeyedConfig:5:") || body.contains('\n'), "{of_table}");
    }
}

/// Of a secret: the file names a variable in its place.
fn without_remedy(text: &str) -> String {
    let line = |line: &str| line.split(" would put a secret").next().map(str::to_owned);
    text.lines().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_not_the_adapters_is_said_elsewhere() {
    for (text, expected) in [
        ("secret_env = 'S'", "unknown key `secret_env` in the table; give the secret to `Keyed::new`"),
        ("policy.breaker = false", "unknown key `policy` in the table; say it to the client's builder"),
        ("redact = ['card']", "unknown key `redact` in the table; say it to the client's builder"),
        (
            "token = 'hunter2'",
            "`token` in the table would put a secret into this text; give it to `Keyed::new`",
        ),
        (
            "adapter = 'stripe'",
            "`adapter` in the table must be `keyed`, or one of `checkout`, `gocardless`, `increase`, `paypal`, \
             `plaid`, `resend`, `square`",
        ),
        ("adapter = 'sqare'", "`adapter` in the table cannot be \"sqare\"; did you mean `square`?"),
    ] {
        let text = format!("{text}\nname = 'x'\nbase_url = 'https://x.test'");
        let said = refused(&text);
        assert!(said.starts_with("KeyedConfig:1:") && said.ends_with(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let headed = "[vendors.x]\nname = 'x'\nbase_url = 'https://x.test'";
    let expected = "KeyedConfig:1:2: unknown key `vendors` in the table; write what is in the vendor's table, \
                    without its header";
    assert!(refused(headed).lines().any(|line| line == expected), "{}", refused(headed));
    let empty = "KeyedConfig:1:1: `name` is missing from the table\n\
                 KeyedConfig:1:1: `base_url` is missing from the table";
    assert_eq!(refused(""), empty);
}

#[test]
fn a_preset_holds_where_the_text_has_nothing() {
    for name in ["checkout", "gocardless", "increase", "paypal", "resend", "square"] {
        let read = KeyedConfig::from_toml(&format!("adapter = '{name}'")).expect(name);
        assert_eq!(Some(read), KeyedConfig::preset(name));
    }
    let mut plaid = KeyedConfig::preset("plaid").expect("a preset");
    plaid.headers.insert("PLAID-CLIENT-ID".to_owned(), "5f1a".to_owned());
    plaid.name = "bank".to_owned();
    let text = "adapter = 'plaid'\nname = 'bank'\nheaders.PLAID-CLIENT-ID = '5f1a'";
    assert_eq!(KeyedConfig::from_toml(text).expect("plaid"), plaid);
    assert_eq!(
        refused("adapter = 'plaid'"),
        "KeyedConfig:1:1: `headers.PLAID-CLIENT-ID` is missing from the table; the vendor wants it on each request, \
         with a value of your account: add it, such as `headers.PLAID-CLIENT-ID = \"…\"`"
    );
}

#[test]
fn a_text_says_what_code_can_say() {
    let text = "name = 'acme'\nbase_url = 'https://acme.test'\nauth = { header = 'X-Key', prefix = 'Key ' }";
    let built = KeyedConfig::new("acme", "https://acme.test").auth("X-Key", "Key ");
    assert_eq!(KeyedConfig::from_toml(text).expect("a vendor"), built);
}
