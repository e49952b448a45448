use std::collections::BTreeSet;

use serde_json::Value;
use steadfast::store::Memory;
use steadfast::{Client, Policy, Vendors};

use crate::vendors_file::{example, load};

/// A client that leaves the example's store alone: it is named by a path.
fn client(vendors: &Vendors, name: &str) -> Client {
    vendors.builder(name).expect(name).store(Memory::new()).build().expect(name)
}

#[test]
fn the_example_passes_the_check_without_any_secret() {
    Vendors::check(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/vendors.toml")).expect("the example");
}

#[test]
fn every_vendor_of_the_example_becomes_a_client() {
    let vendors = load(&example());
    let names: Vec<&str> = vendors.names().collect();
    assert_eq!(names, ["adyen", "bigcommerce", "paypal", "postmark", "resend", "square", "stripe"]);
    for name in names {
        assert_eq!(client(&vendors, name).vendor(), name);
    }
}

#[test]
fn what_the_example_calls_the_default_is_the_default() {
    let vendors = load(&example());
    assert_eq!(*client(&vendors, "stripe").policy(), Policy::background());
    let bare =
        load("namespace = 'prod'\nstore = 'memory'\n[vendors.stripe]\nsecret_env = 'STRIPE_SECRET_KEY'");
    let shown = |vendors: &Vendors| format!("{:?}", vendors.builder("stripe").expect("a builder"));
    assert_eq!(shown(&vendors), shown(&bare));
}

#[test]
fn the_example_names_every_key_of_every_table() {
    let text = example();
    let written: BTreeSet<&str> = text
        .lines()
        .flat_map(|line| line.trim_start_matches(['#', ' ']).split([' ', '=', '{', '[', ']', '.', ',']))
        .collect();
    let schema: Value = serde_json::from_str(Vendors::SCHEMA).expect("JSON");
    let tables = schema["$defs"].as_object().expect("definitions");
    for (table, definition) in tables.iter().chain([(&"the top".to_owned(), &schema)]) {
        for key in definition["properties"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            assert!(written.contains(key.as_str()), "`{key}` of {table}");
        }
    }
    assert!(text.starts_with("#:schema ./vendors.schema.json\n"));
}

/// The files that a reader copies first.
#[test]
fn the_files_on_the_pages_and_in_the_docs_are_good() {
    let pages = [include_str!("../../../src/docs/recipes.md"), include_str!("../../../src/config.rs")];
    for page in pages {
        let page: Vec<&str> = page.lines().map(|line| line.trim_start_matches("///").trim()).collect();
        let blocks: Vec<String> = page
            .split(|line| *line == "```toml")
            .skip(1)
            .map(|block| block.split(|line| *line == "```").next().expect("a first part").join("\n"))
            .filter(|block| block.contains("\n[vendors.stripe]"))
            .collect();
        assert!(!blocks.is_empty());
        for block in blocks {
            let vendors = load(&block);
            assert!(vendors.names().any(|name| name == "stripe"), "{block}");
            assert!(format!("{:?}", vendors.builder("stripe")).contains("store: OpenedBy"), "{block}");
        }
    }
}
