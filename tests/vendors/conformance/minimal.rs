//! The adapter in the documentation of `vendor`: the whole of it is as short as the documentation says.

/// "In under 30 lines": the guide, the README and the changelog.
const LINES_MAX: usize = 29;

#[test]
fn the_minimal_adapter_has_under_thirty_lines() {
    let docs = include_str!("../../../src/vendor.rs");
    let lines = adapter(docs);
    assert_eq!(lines.first(), Some(&"#[derive(Debug)]"), "{lines:#?}");
    assert_eq!(lines.last(), Some(&"}"), "{lines:#?}");
    assert!(lines.contains(&"impl Vendor for Parcels {"), "{lines:#?}");
    assert!(lines.len() <= LINES_MAX, "{} lines", lines.len());
}

/// The type and its `impl`, without the imports before and the use after.
fn adapter(docs: &str) -> Vec<&str> {
    let example = docs.lines().skip_while(|line| *line != "//! # An adapter of one's own");
    let code = example.skip_while(|line| *line != "//! ```").skip(1).take_while(|line| *line != "//! ```");
    let code = code.map(|line| line.trim_start_matches("//!").trim_start_matches(' ').trim_end());
    let is_before_use = |line: &&str| !line.starts_with("let parcels");
    let adapter = code.skip_while(|line| !line.starts_with("#[derive")).take_while(is_before_use);
    adapter.filter(|line| !line.is_empty() && !line.starts_with("//")).collect()
}
