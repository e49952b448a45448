//! Keyed vendors: read from their table of the vendors file, or from a text that is such a table.

use std::borrow::Cow;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use steadfast_core::Error;
use steadfast_core::internal::ext::ErrorExt;
use steadfast_core::vendor::Vendor;

use super::adapter::Kind;
use super::again::read_all;
use super::explain::Hints;
use super::mistakes::{Mistake, Mistakes};
use super::path::Path;
use super::placed::placed;
use super::source::Source;
use super::vendor::{is_vendor_key, no_secret};
use super::{headers, reader, secrets, syntax};
use crate::vendor::{Keyed, KeyedConfig, PRESETS};

impl KeyedConfig {
    /// Reads a vendor from text, in the form of its table in [the vendors file](crate::guide::vendors_file). So code
    /// and file have one form, and the markers of answers are written as data.
    ///
    /// ```
    /// use steadfast::vendor::{Keyed, KeyedConfig};
    ///
    /// let acme = KeyedConfig::from_toml(r#"
    ///     name = "acme"
    ///     base_url = "https://api.acme.example"
    ///     auth = { header = "Authorization", prefix = "Bearer " }
    ///     key = { header = "Idempotency-Key" }
    ///     window = "24h"
    ///     reused = [{ status = 409, json = { pointer = "/error/code", value = "key_reused" } }]
    /// "#)?;
    /// let acme = Keyed::new(acme, "a-secret");
    /// # let _ = acme;
    ///
    /// // A mistake has its line and column, and what would be right.
    /// let mistaken = KeyedConfig::from_toml("name = 'acme'\nbase_url = 'https://api.acme.example'\nwindw = '24h'");
    /// assert_eq!(
    ///     mistaken.unwrap_err().to_string(),
    ///     "KeyedConfig:3:1: unknown key `windw` in the table; did you mean `window`?"
    /// );
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    ///
    /// `adapter` names a [preset](KeyedConfig::preset). Its values hold where the text has none.
    ///
    /// ```
    /// use steadfast::vendor::KeyedConfig;
    ///
    /// let square = KeyedConfig::from_toml(r#"
    ///     adapter = "square"
    ///     base_url = "https://connect.squareupsandbox.com"
    ///     account = "sandbox"
    /// "#)?;
    /// assert_eq!((square.name.as_str(), square.key_len_max), ("square", 45));
    /// # Ok::<(), steadfast::Error>(())
    /// ```
    ///
    /// The text has the adapter's keys alone, and no header such as `[vendors.acme]`. The others of the file's table are
    /// for the client: say them to [`Client::builder`](crate::Client::builder). The secret goes to [`Keyed::new`].
    ///
    /// # Errors
    ///
    /// A validation error with each mistake of the text, as [`Vendors::from_file`](crate::Vendors::from_file) has it.
    /// Where that names the file, this says `KeyedConfig`. The mistakes that [`check`](KeyedConfig::check) refuses are
    /// among them.
    pub fn from_toml(text: &str) -> Result<KeyedConfig, Error> {
        let source = Source::of_table("KeyedConfig", text);
        let mut mistakes = Mistakes::new(source);
        let mut root = syntax::parse(&source, &mut mistakes);
        secrets::take_literals(&mut root, &mut mistakes);
        take_foreign(&mut root, &mut mistakes);
        let whole = Spanned::new(0..source.text().len(), DeValue::Table(root));
        let config = read_all(&source.top(), whole, &mut mistakes, |value| read_table(value, &source.top()));
        mistakes.finish()?;
        config.ok_or_else(|| Error::config("KeyedConfig", "the table cannot be read"))
    }
}

/// Reads and checks the table, up to the first mistake.
fn read_table(value: &Spanned<DeValue<'_>>, path: &Path) -> Result<KeyedConfig, Mistake> {
    let whole = reader::table(value, path)?;
    let (kind, part): (DeTable<'_>, DeTable<'_>) =
        whole.clone().into_iter().partition(|(key, _)| key.get_ref() == ADAPTER);
    let kind: Which = reader::read(whole, Spanned::new(value.span(), kind), path, Hints::default())?;
    let kind = kind.adapter.unwrap_or(Kind::Keyed);
    let preset = PRESETS.iter().map(|(name, _)| *name).find(|name| Kind::named(name) == Some(kind));
    if preset.is_none() && kind != Kind::Keyed {
        let offset = whole.get(ADAPTER).map_or(0, |written| written.span().start);
        let presets: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
        let problem = format!("`{ADAPTER}` in {path} must be `keyed`, or one of `{}`", presets.join("`, `"));
        return Err(Mistake::itself(offset, path.then(ADAPTER), problem));
    }
    let hints = Hints { also_known: &[ADAPTER], below: &[] };
    let config = read(kind, preset, (whole, Spanned::new(value.span(), part)), path, hints)?;
    if let Some(header) = headers::unsaid(&config, whole) {
        let missing = path.then(headers::KEY).then(header);
        return Err(Mistake::absence(0, missing, headers::none(header, path)));
    }
    let checked = Keyed::new(config.clone(), no_secret()).check();
    checked.map_err(|error| placed(&error, path, 0, whole))?;
    Ok(config)
}

/// Reads `part`, the adapter's keys of the table `whole`, which is at `path`. `name` is the vendor's, unless the table
/// says another. For a kind that is a preset, its values hold where the table has none.
pub(super) fn read<'i>(
    kind: Kind,
    name: Option<&str>,
    (whole, mut part): (&DeTable<'i>, Spanned<DeTable<'i>>),
    path: &Path,
    hints: Hints<'_>,
) -> Result<KeyedConfig, Mistake> {
    let span = part.span();
    let default = |part: &mut Spanned<DeTable<'_>>, key: Cow<'static, str>, value: DeValue<'static>| {
        let key = Spanned::new(span.clone(), key);
        part.get_mut().entry(key).or_insert(Spanned::new(span.clone(), value));
    };
    if let Some(name) = name {
        default(&mut part, "name".into(), DeValue::String(name.to_owned().into()));
    }
    let known = kind.preset().and_then(|text| DeTable::parse(text).ok());
    for (key, value) in known.map(Spanned::into_inner).into_iter().flatten() {
        let key = key.into_inner();
        match (value.into_inner(), headers::of(&mut part, &key)) {
            (DeValue::Table(known), Some(said)) => headers::add(said, known),
            (value, _) => default(&mut part, key, value),
        }
    }
    reader::read(whole, part, path, hints)
}

/// Reports the keys that a vendor's table has for the client and not for its adapter, and takes them out.
fn take_foreign(root: &mut DeTable<'_>, mistakes: &mut Mistakes<'_>) {
    let top = mistakes.source().top();
    let all = std::mem::replace(root, DeTable::new());
    for (key, value) in all {
        let name = key.get_ref();
        let instead = match &**name {
            ADAPTER => None,
            "secret_env" => Some("give the secret to `Keyed::new`"),
            "vendors" => Some("write what is in the vendor's table, without its header"),
            name => is_vendor_key(name).then_some("say it to the client's builder"),
        };
        match instead {
            Some(instead) => {
                let problem = format!("unknown key `{name}` in {top}; {instead}");
                mistakes.tell(Mistake::certain(key.span().start, problem));
            }
            None => {
                root.insert(key, value);
            }
        }
    }
}

/// Selection of a keyed vendor.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Which {
    adapter: Option<Kind>,
}

const ADAPTER: &str = "adapter";
