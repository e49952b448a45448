//! The facts that one item of the sources says of itself.

use quote::ToTokens;
use syn::{Attribute, Item, ItemImpl, Type, UseTree, Visibility};

/// An item's attributes, and how visible it is, if that can be said of it.
pub fn head(item: &Item) -> (&[Attribute], Option<&Visibility>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.vis)),
        Item::Enum(item) => (&item.attrs, Some(&item.vis)),
        Item::Fn(item) => (&item.attrs, Some(&item.vis)),
        Item::Mod(item) => (&item.attrs, Some(&item.vis)),
        Item::Static(item) => (&item.attrs, Some(&item.vis)),
        Item::Struct(item) => (&item.attrs, Some(&item.vis)),
        Item::Trait(item) => (&item.attrs, Some(&item.vis)),
        Item::Type(item) => (&item.attrs, Some(&item.vis)),
        Item::Union(item) => (&item.attrs, Some(&item.vis)),
        Item::Use(item) => (&item.attrs, Some(&item.vis)),
        Item::Impl(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// The name of an item that others can import; modules and imports are followed instead.
pub fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

pub fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|argument| argument == "hidden")
    })
}

pub fn has_attribute(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}

/// The conditions under which an item is compiled, and whether its documentation is hidden.
pub fn cfg_of(attributes: &[Attribute]) -> Vec<String> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .filter_map(|attribute| attribute.meta.require_list().ok())
        .map(|list| one_line(&list.tokens))
        .chain(is_hidden(attributes).then(|| "hidden".to_string()))
        .collect()
}

/// Neither of a test build nor of the build that takes guards out.
pub fn is_shipped(item: &Item) -> bool {
    cfg_of(head(item).0)
        .iter()
        .all(|cfg| !matches!(cfg.as_str(), "test" | "feature = \"_guards\"" | "doctest"))
}

pub fn derives(attributes: &[Attribute]) -> Vec<String> {
    let mut names = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let Ok(list) = attribute.meta.require_list() else { continue };
        names.extend(one_line(&list.tokens).split(',').map(|name| name.trim().to_string()));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Each name that a `use` brings, and the path it comes from. A glob brings `*`.
pub fn imports(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    match tree {
        UseTree::Path(path) => imports(&path.tree)
            .into_iter()
            .map(|(name, from)| (name, [vec![path.ident.to_string()], from].concat()))
            .collect(),
        UseTree::Name(name) => vec![(name.ident.to_string(), vec![name.ident.to_string()])],
        UseTree::Rename(name) => vec![(name.rename.to_string(), vec![name.ident.to_string()])],
        UseTree::Glob(_) => vec![("*".to_string(), vec!["*".to_string()])],
        UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
    }
}

/// The path of the type that an impl is of; of a reference, that of what it refers to.
pub fn self_type(item: &ItemImpl) -> Option<Vec<String>> {
    let mut of = &*item.self_ty;
    while let Type::Reference(reference) = of {
        of = &reference.elem;
    }
    let Type::Path(path) = of else { return None };
    Some(path.path.segments.iter().map(|segment| segment.ident.to_string()).collect())
}

/// Tokens as rustfmt would set them, near enough to read, on one line.
pub fn one_line(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for (wide, narrow) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" <", "<"),
        (" >", ">"),
        ("> ::", ">::"),
        (" ,", ","),
        (" ;", ";"),
        (" :", ":"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
        ("[ ", "["),
        (" ]", "]"),
        (" ?", "?"),
        ("? ", "?"),
        ("' ", "'"),
        (",)", ")"),
        (", >", ">"),
        (",>", ">"),
        (" .", "."),
        ("-> ", " -> "),
        ("->", " -> "),
        ("  ", " "),
        ("  ", " "),
        (" -> (", " -> ("),
        ("for<", " for<"),
        ("(mut ", "("),
        (", mut ", ", "),
    ] {
        text = text.replace(wide, narrow);
    }
    text.trim().to_string()
}
