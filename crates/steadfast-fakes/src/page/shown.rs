//! The page for people.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use steadfast_testkit::FaultPlan;
use steadfast_testkit::internal::FaultRule;

use super::super::ledger::Ledger;

/// The page, whole. It needs no script and nothing from elsewhere.
pub(super) fn page(vendor: &str, ledger: &Ledger, plan: &FaultPlan) -> String {
    let (effects, duplicates) = (ledger.effects(), ledger.duplicates());
    let mut rows = String::new();
    for effect in effects.iter().rev().take(ROWS_MAX) {
        let key = effect.wire_key.as_deref().unwrap_or("–");
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{} {}</td><td>{}</td><td>{}</td></tr>",
            escaped(&effect.at.to_string()),
            escaped(&effect.method),
            escaped(&effect.path),
            escaped(&effect.id),
            escaped(key)
        );
    }
    let mut counts = String::new();
    for (fault, count) in plan.counts() {
        let _ = writeln!(counts, "<li>{}: {count}</li>", escaped(&fault.to_header()));
    }
    let names: String = steadfast_testkit::internal::names()
        .iter()
        .map(|name| format!("<option value=\"{name}\">"))
        .collect();
    let twice = duplicates.iter().map(|key| escaped(key)).collect::<Vec<_>>().join(", ");
    let twice = if twice.is_empty() { "none".to_owned() } else { twice };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>fake {vendor}</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:.2em 1em .2em 0;text-align:left}}</style>\n\
         </head><body>\n<h1>The fake of {vendor}</h1>\n\
         <p>{} effects; keys that took effect twice: {twice}. {} requests; faults still to come: {}.</p>\n\
         <h2>Faults</h2>\n<ul>\n{counts}</ul>\n<form method=\"post\" action=\"/_fake/faults\">\n\
         <label>Fault <input name=\"fault\" list=\"faults\" required></label>\n\
         <datalist id=\"faults\">{names}</datalist>\n\
         <label>method <input name=\"method\" size=\"6\"></label>\n\
         <label>path begins with <input name=\"path\"></label>\n\
         <label>times <input name=\"times\" size=\"4\"></label>\n\
         <label><input type=\"checkbox\" name=\"always\" value=\"true\"> always</label>\n\
         <button>Add</button>\n</form>\n\
         <h2>Ledger, newest first</h2>\n<table>\n\
         <tr><th>at</th><th>request</th><th>id</th><th>wire key</th></tr>\n{rows}</table>\n\
         <p>For programs: <a href=\"/_fake/ledger\">/_fake/ledger</a> (GET, DELETE), \
         <a href=\"/_fake/faults\">/_fake/faults</a> (GET, POST, DELETE), \
         <a href=\"/_fake/webhooks\">/_fake/webhooks</a> (GET, POST).</p>\n</body></html>\n",
        effects.len(),
        plan.requests(),
        plan.pending(),
    )
}

/// The form of the page: fields that are left empty were not given.
pub(super) fn read_form(body: &[u8]) -> Result<Vec<FaultRule>, String> {
    let mut rule = Map::new();
    for (name, value) in url::form_urlencoded::parse(body).filter(|(_, value)| !value.is_empty()) {
        let value = match &*name {
            "times" => {
                value.parse().map(|times: u64| Value::from(times)).map_err(|_| "times is no number")?
            }
            "always" => Value::from(value == "true"),
            _ => Value::from(value.into_owned()),
        };
        rule.insert(name.into_owned(), value);
    }
    serde_json::from_value(Value::Object(rule)).map(|rule| vec![rule]).map_err(|error| error.to_string())
}

/// Escapes text that came from a request: it is text here, and no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page, not a report: all of them are in `/_fake/ledger`.
const ROWS_MAX: usize = 100;
