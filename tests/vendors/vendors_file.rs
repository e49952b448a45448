//! The vendors file: what loads, what is refused and in which words, and that the schema and the example say
//! what the code does.

mod example;
mod keyed;
mod loading;
mod mistakes;
mod routes;
mod schema;
mod several;
mod store;

use steadfast::Vendors;

/// Loads a file whose secrets are all there.
fn load(text: &str) -> Vendors {
    let vendors = Vendors::parse(text, "vendors.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    vendors.with_secrets(|variable| Some(format!("secret_of_{variable}")))
}

/// The error of a file that does not load.
fn refusal(text: &str) -> String {
    match Vendors::parse(text, "vendors.toml") {
        Ok(_) => format!("it loads:\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn example() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/vendors.toml");
    std::fs::read_to_string(path).expect("the example")
}
