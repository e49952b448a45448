//! Reading of one table again and again, until all mistakes in it are reported.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{self, take_out};
use super::mistakes::{About, Mistake, Mistakes};
use super::path::Path;

/// Reads `value`, which is the table at `path`. A mistake is reported and taken out, or stood in for if the key is
/// missing, and the rest is read again. `None` if there is a mistake.
pub(super) fn read_all<T>(
    path: &Path,
    mut value: Spanned<DeValue<'_>>,
    mistakes: &mut Mistakes<'_>,
    read: impl Fn(&Spanned<DeValue<'_>>) -> Result<T, Mistake>,
) -> Option<T> {
    let mut is_good = true;
    let mut stood_in: Vec<Path> = Vec::new();
    while !mistakes.is_full() {
        let stand_in = usize::MAX - 1 - stood_in.len();
        let mistake = match read(&value) {
            Ok(read) => return is_good.then_some(read),
            Err(mistake) => mistake,
        };
        is_good = false;
        let offset = mistake.offset;
        let missing = match &mistake.about {
            About::Absence(missing) if !stood_in.contains(missing) => Some(missing.clone()),
            _ => None,
        };
        mistakes.tell(mistake);
        let DeValue::Table(table) = value.get_mut() else { return None };
        if let Some(missing) = missing
            && put(table, path, &missing, stand_in)
        {
            mistakes.took_out(missing.clone());
            stood_in.push(missing);
        } else if !take_out(table, path, offset, mistakes) {
            return None;
        }
    }
    None
}

/// Puts something where a key is missing, so that other mistakes can be found. The offset is one that the text does not
/// have, which distinguishes it from written values.
fn put(table: &mut DeTable<'_>, path: &Path, missing: &Path, offset: usize) -> bool {
    let text = |text: &'static str| DeValue::String(text.into());
    let value = match missing.split() {
        Some((_, "base_url")) => text("https://vendor.invalid"),
        // A text that is a duration can also be a store hash or a name.
        _ => text("1s"),
    };
    document::put(table, path, missing, offset, value)
}
