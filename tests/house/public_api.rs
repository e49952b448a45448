//! The promise of the libraries of this workspace to their users: every public item outside `testkit` and `internal`,
//! one line each, in `snapshot.txt`. A change to the public API is a change to that file, so that a review sees it. An
//! item that one library shows of another has a line at both.
//!
//! The test reads the sources with `syn`. rustdoc's own JSON would be more exact. It needs nightly, and a second build
//! of every dependency, which takes minutes. An item that a macro makes is not seen: here these are trait impls alone.
//!
//! To accept a change: `STEADFAST_PUBLIC_API=write cargo test --test house public_api`, then commit `snapshot.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use quote::ToTokens;
use syn::{Fields, ImplItem, Item, ItemImpl, TraitItem};

mod names;
mod tree;

use names::{Found, Meant, Names};
use support::members::{products, root};
use tree::{cfg_of, is_public, one_line};

/// The number of public types outside `testkit`. It may fall. Where it must rise, the commit says for whom.
const TYPES_MAX: usize = 137;

const SNAPSHOT: &str = "tests/house/public_api/snapshot.txt";

#[test]
fn the_public_api_is_the_one_on_file() {
    let lines = apis().into_iter().map(|api| api.lines).reduce(|all, more| &all | &more).expect("a library");
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let path = root().join(SNAPSHOT);
    if std::env::var("STEADFAST_PUBLIC_API").is_ok_and(|how| how == "write") {
        fs::write(&path, &text).unwrap();
    }
    let on_file = fs::read_to_string(&path).unwrap_or_default();
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (on_file.lines().collect(), text.lines().collect());
    let changes: Vec<_> = old
        .difference(&new)
        .map(|line| format!("- {line}"))
        .chain(new.difference(&old).map(|line| format!("+ {line}")))
        .collect();
    assert!(
        on_file == text,
        "the public API is not the one in {SNAPSHOT}. If this is meant, run\n\
         STEADFAST_PUBLIC_API=write cargo test --test house public_api\n\n{}",
        changes.join("\n")
    );
}

#[test]
fn no_more_types_are_public_than_agreed() {
    let [api, ..] = &apis()[..] else { panic!("a library") };
    let count = api.types.len();
    let paths: Vec<_> = api.types.iter().map(|found| &api.paths[found]).collect();
    assert!(count <= TYPES_MAX, "{count} public types, at most {TYPES_MAX}: {paths:#?}");
}

#[test]
fn every_type_has_one_path() {
    let twice: Vec<_> =
        apis().into_iter().flat_map(|api| api.paths.into_values()).filter(|paths| paths.len() > 1).collect();
    assert!(twice.is_empty(), "more than one path each: {twice:#?}");
}

#[test]
fn what_another_crate_defines_is_listed_where_it_is_shown() {
    let mut names = Names::default();
    let folder = tempfile::tempdir().unwrap();
    let mut read = |name: &str, text: &str| {
        let file = folder.path().join(format!("{name}.rs"));
        fs::write(&file, text).unwrap();
        names.read(name, &file);
    };
    read(
        "core",
        "pub mod clock { #[non_exhaustive] pub struct Tick { pub at: u64 } impl Tick { pub fn next(&self) {} fn hidden(&self) {} } }
         pub mod vendor { pub trait Vendor { fn name(&self); } mod parts { pub struct Part; } pub use parts::Part; }
         pub mod internal { pub trait Engine { fn step(&self); } }
         mod key { pub struct Key; } pub use key::Key;",
    );
    read(
        "client",
        "pub use core::{clock, Key}; pub mod vendor { pub use core::vendor::*; pub struct Own; }
         impl Clone for Key {}",
    );
    let lines = |name: &str| Api::read(&names, name).lines.into_iter().collect::<Vec<_>>();
    let client = [
        "client::Key  pub struct",
        "client::Key: Clone  impl",
        "client::clock  pub mod",
        "client::clock::Tick  pub struct  [non_exhaustive]",
        "client::clock::Tick.at: u64  field",
        "client::clock::Tick::fn next(&self)  pub",
        "client::vendor  pub mod",
        "client::vendor::Own  pub struct",
        "client::vendor::Part  pub struct",
        "client::vendor::Vendor  pub trait: ",
        "client::vendor::Vendor::fn name(&self)  required",
    ];
    assert_eq!(lines("client"), client);
    let core = lines("core");
    assert!(core.contains(&"core::clock::Tick::fn next(&self)  pub".to_owned()), "{core:#?}");
    assert!(!core.iter().any(|line| line.contains("internal") || line.contains("hidden")), "{core:#?}");
    assert_eq!(Api::read(&names, "client").types.len(), 5, "of whichever crate");
}

/// Of each library that users build, the one at the root first.
fn apis() -> Vec<Api> {
    let libraries: Vec<_> = products()
        .into_iter()
        .filter_map(|member| Some((member.crate_name(), member.library?)))
        .filter(|(name, _)| name != "steadfast_testkit" && name != "steadfast_fakes")
        .collect();
    let mut names = Names::default();
    for (name, library) in &libraries {
        names.read(name, &root().join(library));
    }
    libraries.iter().map(|(name, _)| Api::read(&names, name)).collect()
}

/// The public items of one crate.
struct Api {
    names: Names,
    /// One line each, sorted.
    lines: BTreeSet<String>,
    /// Where each public type is defined.
    types: BTreeSet<Found>,
    /// The public paths of each item, by where it is defined.
    paths: BTreeMap<Found, BTreeSet<String>>,
}

impl Api {
    fn read(names: &Names, name: &str) -> Api {
        let (lines, types, paths) = Default::default();
        let mut api = Api { names: names.clone(), lines, types, paths };
        api.module(&[name.to_owned()], name, &[]);
        api.impls();
        api
    }

    /// Lists the public items of the module at `at`, which users know as `path`.
    fn module(&mut self, at: &[String], path: &str, cfgs: &[String]) {
        for item in self.names.items(at) {
            let (attributes, visibility) = tree::head(&item);
            if !visibility.is_some_and(is_public) {
                continue;
            }
            let cfgs = [cfgs, &cfg_of(attributes)].concat();
            match &item {
                Item::Mod(module) if module.ident == "testkit" || module.ident == "internal" => {}
                Item::Mod(module) => {
                    let inner = [at, &[module.ident.to_string()]].concat();
                    let path = format!("{path}::{}", module.ident);
                    self.line("pub mod", &path, "", &cfgs);
                    self.module(&inner, &path, &cfgs);
                }
                Item::Use(used) => {
                    for (name, from) in tree::imports(&used.tree) {
                        self.used(at, (&name, &from), path, &cfgs);
                    }
                }
                item => {
                    if let Some(name) = tree::name(item) {
                        self.item(
                            &Found { module: at.to_vec(), name: name.clone() },
                            &format!("{path}::{name}"),
                            &cfgs,
                        );
                    }
                }
            }
        }
    }

    /// Adds what a module that users know as `path` shows of another.
    fn used(&mut self, at: &[String], (name, from): (&str, &[String]), path: &str, cfgs: &[String]) {
        if let Some(of) = from.strip_suffix(&["*".to_owned()]) {
            if let Some(Meant::Module(of)) = self.names.meant(at, of) {
                self.module(&of, path, cfgs);
            }
            return;
        }
        let path = format!("{path}::{name}");
        match self.names.meant(at, from) {
            Some(Meant::Item(found)) => self.item(&found, &path, cfgs),
            Some(Meant::Module(_)) if name == "testkit" => {}
            Some(Meant::Module(of)) => {
                self.line("pub mod", &path, "", cfgs);
                self.module(&of, &path, cfgs);
            }
            None => self.line("pub use", &path, "", cfgs),
        }
    }

    fn item(&mut self, found: &Found, path: &str, cfgs: &[String]) {
        let Some(item) = &self.names.item(found) else { return };
        let cfgs = &[cfgs, &cfg_of(tree::head(item).0)].concat();
        self.paths.entry(found.clone()).or_default().insert(path.to_string());
        if matches!(item, Item::Enum(_) | Item::Struct(_) | Item::Trait(_) | Item::Type(_) | Item::Union(_)) {
            self.types.insert(found.clone());
        }
        match item {
            Item::Struct(item) => {
                self.kind("pub struct", path, &item.generics, &open(cfgs, &item.attrs));
                self.fields(path, &item.fields, "pub ", cfgs);
            }
            Item::Enum(item) => {
                self.kind("pub enum", path, &item.generics, &open(cfgs, &item.attrs));
                for variant in &item.variants {
                    let path = format!("{path}::{}", variant.ident);
                    let cfgs = [cfgs.as_slice(), &cfg_of(&variant.attrs)].concat();
                    self.line("variant", &path, "", &open(&cfgs, &variant.attrs));
                    self.fields(&path, &variant.fields, "", &cfgs);
                }
            }
            Item::Trait(item) => {
                let bounds = one_line(&item.supertraits);
                self.kind(&format!("pub trait: {bounds}"), path, &item.generics, cfgs);
                for member in &item.items {
                    self.trait_item(path, member, cfgs);
                }
            }
            Item::Type(item) => {
                self.kind(&format!("pub type = {}", one_line(&item.ty)), path, &item.generics, cfgs);
            }
            Item::Const(item) => self.line("pub const", path, &format!(": {}", one_line(&item.ty)), cfgs),
            Item::Static(item) => self.line("pub static", path, &format!(": {}", one_line(&item.ty)), cfgs),
            Item::Fn(item) => self.line(&format!("pub {}", one_line(&item.sig)), path, "", cfgs),
            item => self.line("pub", path, &one_line(item), cfgs),
        }
    }

    fn kind(&mut self, kind: &str, path: &str, generics: &syn::Generics, cfgs: &[String]) {
        let generics = format!("{}{}", one_line(&generics.params), one_line(&generics.where_clause));
        let generics = if generics.is_empty() { generics } else { format!("<{generics}>") };
        self.line(kind, path, &generics, cfgs);
    }

    fn fields(&mut self, path: &str, fields: &Fields, mark: &str, cfgs: &[String]) {
        for (place, field) in fields.iter().enumerate() {
            // A variant's fields are as public as it is.
            if mark.is_empty() || is_public(&field.vis) {
                let name = field.ident.as_ref().map_or(place.to_string(), ToString::to_string);
                let cfgs = [cfgs, &cfg_of(&field.attrs)].concat();
                self.line("field", &format!("{path}.{name}"), &format!(": {}", one_line(&field.ty)), &cfgs);
            }
        }
    }

    fn trait_item(&mut self, path: &str, member: &TraitItem, cfgs: &[String]) {
        let (kind, attributes, text) = match member {
            TraitItem::Fn(method) if method.default.is_some() => {
                ("provided", &method.attrs[..], one_line(&method.sig))
            }
            TraitItem::Fn(method) => ("required", &method.attrs[..], one_line(&method.sig)),
            TraitItem::Const(item) => {
                ("required", &item.attrs[..], format!("const {}: {}", item.ident, one_line(&item.ty)))
            }
            TraitItem::Type(item) => ("required", &item.attrs[..], format!("type {}", item.ident)),
            other => ("required", &[][..], one_line(other)),
        };
        let cfgs = [cfgs, &cfg_of(attributes)].concat();
        self.line(kind, path, &format!("::{text}"), &cfgs);
    }

    /// Adds what the public types can do: their public methods and constants, and the traits they have.
    fn impls(&mut self) {
        for (module, item) in self.names.impls() {
            let Some(found) = tree::self_type(&item).and_then(|path| self.names.resolve(&module, &path))
            else {
                continue;
            };
            let Some(path) = self.paths.get(&found).and_then(|paths| paths.first().cloned()) else {
                continue;
            };
            let cfgs = cfg_of(&item.attrs);
            match &item.trait_ {
                Some((_, of, _)) => {
                    let path = path.strip_prefix("steadfast::").unwrap_or(&path);
                    let line = format!("{path}: {}{}", generics(&item), one_line(of));
                    self.line("impl", &line, "", &cfgs);
                }
                None => self.methods(&path, &item, &cfgs),
            }
        }
        for (found, path) in self.paths.clone() {
            let Some(item) = &self.names.item(&found) else { continue };
            for path in &path {
                for name in tree::derives(tree::head(item).0) {
                    self.line("impl", path, &format!(": {name}"), &[]);
                }
            }
        }
    }

    fn methods(&mut self, path: &str, item: &ItemImpl, cfgs: &[String]) {
        for member in &item.items {
            let (attributes, visibility, text) = match member {
                ImplItem::Fn(method) => (&method.attrs, &method.vis, one_line(&method.sig)),
                ImplItem::Const(constant) => (
                    &constant.attrs,
                    &constant.vis,
                    format!("const {}: {}", constant.ident, one_line(&constant.ty)),
                ),
                _ => continue,
            };
            if is_public(visibility) {
                let cfgs = [cfgs, &cfg_of(attributes)].concat();
                self.line("pub", &format!("{path}{}", generics(item)), &format!("::{text}"), &cfgs);
            }
        }
    }

    fn line(&mut self, kind: &str, path: &str, rest: &str, cfgs: &[String]) {
        let mut seen = BTreeSet::new();
        let cfgs: Vec<_> = cfgs.iter().filter(|cfg| seen.insert(*cfg)).cloned().collect();
        let cfgs = if cfgs.is_empty() { String::new() } else { format!("  [{}]", cfgs.join(", ")) };
        let path = path.strip_prefix("steadfast::").unwrap_or(path);
        self.lines.insert(format!("{path}{rest}  {kind}{cfgs}"));
    }
}

fn generics(item: &ItemImpl) -> String {
    let text = item.generics.params.to_token_stream();
    if text.is_empty() { String::new() } else { format!("<{}> ", one_line(&text)) }
}

/// With a mark of what may have more one day, so that none loses it unseen.
fn open(cfgs: &[String], attributes: &[syn::Attribute]) -> Vec<String> {
    let mark = tree::has_attribute(attributes, "non_exhaustive").then(|| "non_exhaustive".to_owned());
    cfgs.iter().cloned().chain(mark).collect()
}
