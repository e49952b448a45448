//! The place in the file of the client's own errors.

use toml::de::DeTable;

use steadfast_core::internal::error::{Field, Invalid, Kind as ErrorKind};
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::{Error, Input};

use super::document::locate;
use super::mistakes::Mistake;
use super::path::Path;
use super::vendor::{POLICY_KEY, RETENTION_KEY, ROUTES_KEY};

/// The client's own complaint, with its place in the file. The place is the field. Where that one has the preset's value,
/// it is another field that it is compared with, or else the innermost table on the way.
pub(super) fn placed(error: &Error, path: &Path, key: usize, whole: &DeTable<'_>) -> Mistake {
    let ErrorKind::Invalid(invalid) = error.kind() else {
        return Mistake::together(key, vec![path.clone()], format!("{path}: {error}"));
    };
    let Invalid { input, field, beside, set_by, unless, problem } = &**invalid;
    let mut table = table_of(*input);
    let is_said = |table: &'static str| {
        field
            .as_ref()
            .and_then(|field| locate(whole, &field.below(table)))
            .is_some_and(|(_, is_said)| is_said)
    };
    if table == Some(RETENTION_KEY) && !is_said(RETENTION_KEY) && is_said(ROUTES_KEY) {
        table = Some(ROUTES_KEY);
    }
    let in_file = |field: &Field| table.map_or_else(|| field.clone(), |table| field.below(table));
    let own = field.clone().unwrap_or_else(|| Field::of(&[set_by.unwrap_or(input.name())]));
    let fields: Vec<Field> = [&own].into_iter().chain(beside).map(in_file).collect();
    let places: Vec<_> = fields.iter().map(|field| locate(whole, field)).collect();
    let written = places.iter().flatten().find(|(_, is_written)| *is_written);
    let offset = written.or(places[0].as_ref()).map_or(key, |(offset, _)| *offset);

    let mut about: Vec<Path> = fields.iter().map(|field| path.field(field)).collect();
    about.extend(table.is_some().then(|| path.then("preset")));
    about.extend(unless.map(|switch| path.then(switch)));
    if *input == Input::Retention {
        // Against the vendor's window and the policy's time: what is wrong with those is told first.
        about.extend([path.then(POLICY_KEY), path.then("window")]);
    }
    let place = table.map_or_else(|| path.clone(), |table| path.then(table));
    let unless = unless.map_or_else(String::new, |switch| format!(" or `{switch} = true`"));
    Mistake::together(offset, about, format!("`{own}` in {place}: {problem}{unless}"))
}

/// The table of a vendor's that holds the fields of an input, where it is not the vendor's own.
fn table_of(input: Input) -> Option<&'static str> {
    match input {
        Input::Policy => Some(POLICY_KEY),
        Input::Retention => Some(RETENTION_KEY),
        _ => None,
    }
}
