//! Where a name of the sources leads: modules, their items, and what `use` makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Item, ItemImpl};

use crate::public_api::tree;

/// An item, by the module it is defined in and its name there. A module begins with its crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub module: Vec<String>,
    pub name: String,
}

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Meant {
    Item(Found),
    Module(Vec<String>),
}

/// The modules of the crates and their items.
#[derive(Clone, Default)]
pub struct Names {
    modules: BTreeMap<Vec<String>, Vec<Item>>,
}

impl Names {
    /// Reads a crate, which begins with this file.
    pub fn read(&mut self, name: &str, library: &Path) {
        let folder = library.parent().expect("the folder of a file");
        self.file(&[name.to_owned()], library, folder);
    }

    /// Reads the module at `at` from `file`; its own modules are in `folder`.
    fn file(&mut self, at: &[String], file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.module(at, parsed.items, folder);
    }

    fn module(&mut self, at: &[String], mut items: Vec<Item>, folder: &Path) {
        items.retain(tree::is_shipped);
        for item in &items {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let inner: Vec<String> = [at, std::slice::from_ref(&name)].concat();
            let inner_folder: PathBuf = folder.join(&name);
            match &module.content {
                Some((_, items)) => self.module(&inner, items.clone(), &inner_folder),
                None => self.file(&inner, &folder.join(format!("{name}.rs")), &inner_folder),
            }
        }
        self.modules.insert(at.to_vec(), items);
    }

    pub fn items(&self, at: &[String]) -> Vec<Item> {
        self.modules.get(at).cloned().unwrap_or_default()
    }

    pub fn item(&self, found: &Found) -> Option<Item> {
        let items = self.modules.get(&found.module)?;
        items.iter().find(|item| tree::name(item).as_ref() == Some(&found.name)).cloned()
    }

    /// Every impl outside `testkit`, with the module it is in.
    pub fn impls(&self) -> Vec<(Vec<String>, ItemImpl)> {
        let mut impls = Vec::new();
        for (at, items) in &self.modules {
            if at.get(1).is_some_and(|first| first == "testkit") {
                continue;
            }
            impls.extend(items.iter().filter_map(|item| match item {
                // An extension trait is in `internal`.
                Item::Impl(item) if !tree::has_attribute(&item.attrs, "ext") => {
                    Some((at.clone(), item.clone()))
                }
                _ => None,
            }));
        }
        impls
    }

    /// The item that `path` means in the module at `at`; none if it is no item, or that of a crate that is not read.
    pub fn resolve(&self, at: &[String], path: &[String]) -> Option<Found> {
        match self.meant(at, path)? {
            Meant::Item(found) => Some(found),
            Meant::Module(_) => None,
        }
    }

    /// The meaning of `path` in the module at `at`; none if it is another crate's that is not read.
    pub fn meant(&self, at: &[String], path: &[String]) -> Option<Meant> {
        self.look(at, path, &mut BTreeSet::new())
    }

    fn look(
        &self,
        at: &[String],
        path: &[String],
        seen: &mut BTreeSet<(Vec<String>, Vec<String>)>,
    ) -> Option<Meant> {
        if !seen.insert((at.to_vec(), path.to_vec())) {
            return None;
        }
        let Some((first, rest)) = path.split_first() else { return Some(Meant::Module(at.to_vec())) };
        match first.as_str() {
            "crate" => return self.look(&at[..1], rest, seen),
            "self" => return self.look(at, rest, seen),
            "super" => return self.look(at.split_last()?.1, rest, seen),
            _ => {}
        }
        let items = self.modules.get(at)?;
        if rest.is_empty() && items.iter().any(|item| tree::name(item).as_ref() == Some(first)) {
            return Some(Meant::Item(Found { module: at.to_vec(), name: first.clone() }));
        }
        let inner = [at, std::slice::from_ref(first)].concat();
        let is_module = self.modules.contains_key(&inner);
        if is_module && !rest.is_empty() {
            return self.look(&inner, rest, seen);
        }
        let of_crate = std::slice::from_ref(first);
        if self.modules.contains_key(of_crate) {
            return self.look(of_crate, rest, seen);
        }
        for item in items {
            let Item::Use(used) = item else { continue };
            for (name, mut from) in tree::imports(&used.tree) {
                let found = if name == "*" {
                    from.pop();
                    self.look(at, &[from, path.to_vec()].concat(), seen)
                } else if name == *first && (from.len() > 1 || from.first() != Some(first)) {
                    self.look(at, &[from, rest.to_vec()].concat(), seen)
                } else {
                    None
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        if is_module { self.look(&inner, rest, seen) } else { None }
    }
}
