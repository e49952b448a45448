//! The file as a whole: its own settings, and its vendors' tables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use steadfast_core::Error;
use steadfast_core::internal::suggest::shown;

use super::explain::{Hints, unknown_key};
use super::mistakes::{Mistake, Mistakes};
use super::path::Path;
use super::source::Source;
use super::store::Named;
use super::vendor::{Entry, is_vendor_key};
use super::{reader, secrets, store, suggest, syntax};

/// Content of a file.
pub(super) struct File {
    pub namespace: Option<String>,
    /// Store in which operations are recorded, if the file names one.
    pub store: Option<Named>,
    pub entries: BTreeMap<String, Entry>,
}

impl File {
    /// Reads and checks the text. A path in `store` is relative to `directory`.
    ///
    /// # Errors
    ///
    /// A validation error with all that is wrong.
    pub(super) fn read(source: &Source<'_>, directory: Option<PathBuf>) -> Result<File, Error> {
        let mut mistakes = Mistakes::new(*source);
        let mut root = syntax::parse(source, &mut mistakes);
        secrets::take_literals(&mut root, &mut mistakes);
        let misplaced = tell_unknown(&root, &mut mistakes);
        let namespace = match read_namespace(&root) {
            Ok(namespace) => namespace.map(str::to_owned),
            Err(mistake) => {
                mistakes.tell(mistake);
                None
            }
        };
        let store = store::read(source, &root, directory, &mut mistakes);
        let mut vendors = misplaced;
        match root.get("vendors") {
            None => {}
            Some(value) => match reader::table(value, &Path::of(["vendors"])) {
                Ok(table) => vendors.extend(in_file_order(table)),
                Err(mut mistake) => {
                    mistake.problem += "; write each vendor as [vendors.<name>]";
                    mistakes.tell(mistake);
                    mistakes.took_out(Path::of(["vendors"]));
                }
            },
        }
        if vendors.is_empty() {
            mistakes.tell(no_vendors(&root));
        }
        let entries = read_vendors(source, namespace.as_deref(), &vendors, &mut mistakes);
        mistakes.finish()?;
        Ok(File { namespace, store, entries })
    }
}

type Key<'t, 'i> = (&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>);

/// Reports the keys at the top that do not belong there. Returns those that are vendors' tables in the wrong place.
fn tell_unknown<'t, 'i>(root: &'t DeTable<'i>, mistakes: &mut Mistakes<'_>) -> Vec<Key<'t, 'i>> {
    let (top, mut misplaced) = (Path::default(), Vec::new());
    let vendors = root.get("vendors").and_then(|vendors| vendors.get_ref().as_table());
    for (key, value) in in_file_order(root) {
        let name = key.get_ref().as_ref();
        let path = Path::of([name]);
        if name == "vendors" || SETTINGS.contains(&name) {
            continue;
        }
        let is_table = match value.get_ref() {
            DeValue::Table(_) => true,
            DeValue::Array(items) => items.iter().any(|item| item.get_ref().is_table()),
            _ => false,
        };
        let problem = if is_vendor_key(name) {
            format!("unknown key `{name}` in {top}; it belongs in a vendor's table, such as [vendors.stripe]")
        } else if is_table && suggest::nearest(name, TOP_KEYS).is_none() {
            let right = Path::of(["vendors", name]);
            if !vendors.is_some_and(|vendors| vendors.contains_key(name)) {
                misplaced.push((key, value));
                mistakes.moved(&path, &right);
            }
            format!("unknown table {path}; a vendor's table is {right}")
        } else {
            unknown_key(name, &top, &TOP_KEYS, Hints::default())
        };
        mistakes.tell(Mistake::certain(key.span().start, problem));
        mistakes.took_out(path);
    }
    misplaced
}

fn read_namespace<'t>(root: &'t DeTable<'_>) -> Result<Option<&'t str>, Mistake> {
    let Some(value) = root.get("namespace") else { return Ok(None) };
    let problem = match value.get_ref() {
        DeValue::String(text) => match check_word(text) {
            Ok(()) => return Ok(Some(text)),
            Err(problem) => problem,
        },
        _ => "it must be text in quotes, such as \"prod\"".to_owned(),
    };
    let path = Path::of(["namespace"]);
    Err(Mistake::itself(value.span().start, path, format!("`namespace`: {problem}")))
}

/// Reports a file without a vendor: there is no client to be made, so that the file is another one than it was taken
/// for.
fn no_vendors(root: &DeTable<'_>) -> Mistake {
    let start = root.get_key_value("vendors").map_or(0, |(key, _)| key.span().start);
    let problem = "the file has no vendors; write a table for each, such as [vendors.stripe] with \
         `secret_env = \"STRIPE_SECRET_KEY\"` in it";
    Mistake::absence(start, Path::of(["vendors"]), problem)
}

fn read_vendors(
    source: &Source<'_>,
    namespace: Option<&str>,
    vendors: &[Key<'_, '_>],
    mistakes: &mut Mistakes<'_>,
) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let mut scopes: BTreeMap<(String, String), String> = BTreeMap::new();
    for (key, value) in vendors {
        let (name, start) = (key.get_ref().as_ref(), key.span().start);
        let path = Path::of(["vendors", name]);
        if let Err(problem) = check_word(name) {
            let problem = format!("vendor `{}`: {problem}", shown(name));
            mistakes.tell(Mistake::itself(start, path.clone(), problem));
        }
        let value = Spanned::clone(value);
        let Some(entry) = Entry::read_all(source, namespace, (&path, start), value, mistakes) else {
            continue;
        };
        if let Some(first) = scopes.insert(entry.scope.clone(), name.to_owned()) {
            mistakes.tell(same_scope(&path, start, &Path::of(["vendors", &first])));
        }
        entries.insert(name.to_owned(), entry);
    }
    entries
}

/// Two vendors with one name and one account would take each other's operations for their own.
fn same_scope(path: &Path, start: usize, first: &Path) -> Mistake {
    let problem = format!(
        "{path} has the same adapter and account as {first}, so that their operations could not be told apart; \
         give each its own `account`"
    );
    Mistake::together(start, vec![path.clone(), first.clone()], problem)
}

/// Names become parts of an operation's scope, between slashes.
fn check_word(word: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=NAME_MAX).contains(&word.len()) && word.bytes().all(is_good) {
        return Ok(());
    }
    Err(format!("it must be 1 to {NAME_MAX} letters, digits, `_`, `-` or `.`, such as \"prod-eu\""))
}

pub(super) fn in_file_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Key<'t, 'i>> {
    let mut keys: Vec<_> = table.iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    keys
}

/// The file's own settings: all its keys but the vendors' tables.
pub(super) const SETTINGS: [&str; 3] = ["namespace", "store", "seal_keys_env"];

const TOP_KEYS: [&str; 4] = ["namespace", "store", "seal_keys_env", "vendors"];

/// A scope is a key in every store.
const NAME_MAX: usize = 64;
