//! The code that a reader copies stays small enough to be read.

/// The service's own code.
const SHOP: &str = include_str!("../../src/shop.rs");

#[test]
fn what_a_reader_copies_is_one_file_of_under_150_lines_that_names_nothing_of_the_example() {
    assert!(SHOP.lines().count() < 150, "{} lines", SHOP.lines().count());
    // Neither the example's own modules nor the fakes: it compiles in any service.
    for foreign in ["crate::", "super::", "testkit", "#[allow", "#[expect"] {
        assert!(!SHOP.contains(foreign), "shop.rs says {foreign}");
    }
}
