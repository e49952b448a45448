//! A form, decoded: bracketed names into lists and hashes, and each text into what the contract says it is.

use serde_json::{Map, Value};
use wiremock::Request;

use super::contract::{Field, Kind};
use super::refusal::Refusal;

/// A request's parameters, in the order sent.
#[derive(Debug)]
pub(super) struct Params(Vec<(String, String)>);

/// The content that one name holds.
#[derive(Clone, Debug)]
enum Node {
    Text(String),
    Inner(Vec<(String, Node)>),
}

impl Params {
    /// Query and body together: Stripe takes parameters from both.
    pub(super) fn of(request: &Request) -> Params {
        let body = url::form_urlencoded::parse(&request.body).into_owned();
        Params(request.url.query_pairs().into_owned().chain(body).collect())
    }

    /// The parameters as one text: two requests are the same if these are equal. If the order is ignored, pairs of one
    /// name still keep theirs: it is the order of a list.
    pub(super) fn text(&self, ignores_order: bool) -> String {
        let mut pairs: Vec<&(String, String)> = self.0.iter().collect();
        if ignores_order {
            pairs.sort_by_key(|(name, _)| name.as_str());
        }
        let pairs = pairs.into_iter().map(|(name, value)| (name, value));
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }

    /// The objects that an answer is to show in place of an id.
    pub(super) fn expand(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(name, _)| is_expand(name)).map(|(_, value)| value.as_str())
    }

    /// The parameters as these fields take them. A parameter that is unset is null.
    pub(super) fn decode(&self, fields: &[Field]) -> Result<Map<String, Value>, Refusal> {
        let mut nodes: Vec<(String, Node)> = Vec::new();
        for (name, value) in self.0.iter().filter(|(name, _)| !is_expand(name)) {
            let path = path(name);
            // The tree that is built of it, and read of it, is as deep as it is.
            if path.len() > DEPTH_MAX {
                return Err(Refusal::unknown(name));
            }
            insert(&mut nodes, &path, value, name)?;
        }
        hash(fields, &nodes, "")
    }
}

fn is_expand(name: &str) -> bool {
    name == "expand" || name.starts_with("expand[")
}

/// `a[b][0]` → `a`, `b`, `0`.
fn path(name: &str) -> Vec<&str> {
    match name.split_once('[') {
        Some((first, rest)) => {
            let rest = rest.strip_suffix(']').unwrap_or(rest);
            std::iter::once(first).chain(rest.split("][")).collect()
        }
        None => vec![name],
    }
}

fn insert(nodes: &mut Vec<(String, Node)>, path: &[&str], value: &str, name: &str) -> Result<(), Refusal> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    // `a[]`: the next of a list.
    let first = if first.is_empty() { nodes.len().to_string() } else { (*first).to_owned() };
    let at = nodes.iter().position(|(known, _)| *known == first).unwrap_or_else(|| {
        nodes.push((
            first,
            if rest.is_empty() { Node::Text(value.to_owned()) } else { Node::Inner(Vec::new()) },
        ));
        nodes.len() - 1
    });
    match (&mut nodes[at].1, rest) {
        (Node::Text(held), []) => value.clone_into(held),
        (Node::Inner(inner), [_, ..]) => insert(inner, rest, value, name)?,
        _ => {
            return Err(Refusal::param(
                name,
                format!("Invalid parameter: {name} is both a value and a hash"),
            ));
        }
    }
    Ok(())
}

fn hash(fields: &[Field], nodes: &[(String, Node)], outer: &str) -> Result<Map<String, Value>, Refusal> {
    let named = |name: &str| if outer.is_empty() { name.to_owned() } else { format!("{outer}[{name}]") };
    let mut decoded = Map::new();
    for (name, node) in nodes {
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            return Err(Refusal::unknown(&named(name)));
        };
        decoded.insert(name.clone(), value(&field.kind, node, &named(name))?);
    }
    let unset = |field: &&Field| field.required && decoded.get(&field.name).is_none_or(Value::is_null);
    match fields.iter().find(unset) {
        Some(field) => Err(Refusal::missing(&named(&field.name))),
        None => Ok(decoded),
    }
}

fn value(kind: &Kind, node: &Node, name: &str) -> Result<Value, Refusal> {
    match (kind, node) {
        // An empty value unsets.
        (_, Node::Text(text)) if text.is_empty() => Ok(Value::Null),
        (Kind::Hash(fields), Node::Inner(nodes)) => Ok(Value::Object(hash(fields, nodes, name)?)),
        (Kind::Metadata, Node::Inner(nodes)) => metadata(nodes, name),
        (Kind::Range, Node::Inner(nodes)) => Ok(Value::Object(hash(&bounds(), nodes, name)?)),
        (Kind::List(inner), Node::Inner(nodes)) => {
            let item = |(at, node): &(String, Node)| value(inner, node, &format!("{name}[{at}]"));
            nodes.iter().map(item).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        (Kind::Hash(_) | Kind::Metadata, Node::Text(_)) => Err(Refusal::param(name, "Invalid object")),
        (Kind::List(_), Node::Text(_)) => Err(Refusal::param(name, "Invalid array")),
        (_, Node::Inner(_)) => Err(Refusal::param(name, format!("Invalid string: {name} is a hash"))),
        (kind, Node::Text(text)) => scalar(kind, text, name),
    }
}

fn scalar(kind: &Kind, text: &str, name: &str) -> Result<Value, Refusal> {
    let integer = || {
        let invalid = || Refusal::param(name, format!("Invalid integer: {text}"));
        text.parse::<i64>().map(Value::from).map_err(|_| invalid().code("parameter_invalid_integer"))
    };
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    match kind {
        Kind::Int | Kind::Signed | Kind::Whole | Kind::Range => integer(),
        Kind::Number | Kind::Decimal => match number() {
            Some(number) if matches!(kind, Kind::Number) => {
                Ok(text.parse::<i64>().map_or_else(|_| Value::from(number), Value::from))
            }
            Some(_) => Ok(Value::from(text)),
            None => Err(Refusal::param(name, format!("Invalid decimal: {text}"))),
        },
        Kind::Bool => text
            .parse::<bool>()
            .map(Value::from)
            .map_err(|_| Refusal::param(name, format!("Invalid boolean: {text}"))),
        Kind::OneOf(names) if !names.iter().any(|known| known == text) => {
            Err(Refusal::param(name, format!("Invalid {name}: must be one of {}", names.join(", "))))
        }
        _ => Ok(Value::from(text)),
    }
}

/// Null for a name is its removal. The bounds are documented at <https://docs.stripe.com/api/metadata>.
fn metadata(nodes: &[(String, Node)], param: &str) -> Result<Value, Refusal> {
    let mut decoded = Map::new();
    for (name, node) in nodes {
        let Node::Text(text) = node else {
            return Err(Refusal::param(param, "Metadata values must be strings"));
        };
        if name.chars().count() > 40 || text.chars().count() > 500 {
            let message = "Metadata keys can have up to 40 characters, and values up to 500";
            return Err(Refusal::param(&format!("{param}[{name}]"), message));
        }
        let value = if text.is_empty() { Value::Null } else { Value::from(text.as_str()) };
        decoded.insert(name.clone(), value);
    }
    if decoded.len() > 50 {
        return Err(Refusal::param(param, "Metadata can have up to 50 keys"));
    }
    Ok(Value::Object(decoded))
}

fn bounds() -> Vec<Field> {
    let bound = |name: &str| Field { name: name.to_owned(), required: false, kind: Kind::Int };
    ["gt", "gte", "lt", "lte"].map(bound).to_vec()
}

/// No parameter of the contract has as many parts.
const DEPTH_MAX: usize = 16;
