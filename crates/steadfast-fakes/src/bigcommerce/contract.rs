//! BigCommerce's specification of bodies: the fixture file `bigcommerce_contract.json`, read once.

use std::collections::HashMap;
use std::sync::LazyLock;

use humantime_serde::re::humantime::format_rfc3339_seconds;
use serde::Deserialize;
use serde_json::{Map, Value};

use steadfast_core::clock::Timestamp;

use super::routes::route_of;

/// One collection of a store, such as `v2/orders`.
#[derive(Debug, Deserialize)]
#[serde(from = "Written")]
pub(super) struct Resource {
    /// The members that an object always has, as they are before a request sets anything.
    answer: Map<String, Value>,
    /// Of carts: what a line of each list always has.
    lines: Map<String, Value>,
    create: Option<Taken>,
    update: Option<Taken>,
    several: Option<Taken>,
}

/// The body that a request takes, and the status of its success.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) status: u16,
    /// Lists of which one has a row.
    pub(super) some: Vec<String>,
    pub(super) members: Vec<Member>,
}

/// A member of a body.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) may_be_null: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Optional,
    Required,
    /// Read-only: what is sent is left out.
    Ignored,
    /// Read-only, and documented to be refused.
    Refused,
    /// BigCommerce's, and not implemented.
    Foreign,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Text,
    Int,
    Number,
    Bool,
    /// A number, or one as text. It is read back as text with four decimals.
    Money,
    /// A whole number, also as text.
    Id,
    /// Any object.
    Map,
    Any,
    OneOf(Vec<String>),
    List(Box<Kind>),
    Object(Vec<Member>),
}

impl Resource {
    /// That of the collection at this path.
    pub(super) fn of(route: &[&str]) -> Option<&'static Resource> {
        match route_of(route) {
            Some(known) => RESOURCES.get(known.path),
            None => RESOURCES.get(&route.join("/")),
        }
    }

    pub(super) fn create(&self) -> Option<&Taken> {
        self.create.as_ref()
    }

    pub(super) fn update(&self) -> Option<&Taken> {
        self.update.as_ref()
    }

    pub(super) fn several(&self) -> Option<&Taken> {
        self.several.as_ref()
    }

    /// Whether an object shows this member.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.answer.contains_key(name)
    }

    /// A new object, before a request sets anything.
    pub(super) fn new_object(&self, now: Timestamp) -> Map<String, Value> {
        let dated = |(name, value): (&String, &Value)| {
            let value = value.as_str().and_then(|text| at(text, now)).unwrap_or_else(|| value.clone());
            (name.clone(), value)
        };
        self.answer.iter().map(dated).collect()
    }

    /// A new line of a cart's list of this name.
    pub(super) fn new_line(&self, list: &str) -> Map<String, Value> {
        self.lines.get(list).and_then(Value::as_object).cloned().unwrap_or_default()
    }
}

/// A new object of the collection of this name.
pub(super) fn fields_of(collection: &str, now: Timestamp) -> Map<String, Value> {
    let route: Vec<&str> = collection.split('/').collect();
    Resource::of(&route).map(|resource| resource.new_object(now)).unwrap_or_default()
}

/// The time in the form of a time that an object has.
pub(super) fn like(before: &Value, now: Timestamp) -> Option<Value> {
    match before {
        Value::String(text) if text.ends_with("+0000") => at("$rfc2822", now),
        Value::String(text) if text.contains('T') => at("$iso", now),
        Value::Number(_) => at("$unix", now),
        _ => None,
    }
}

fn at(form: &str, now: Timestamp) -> Option<Value> {
    match form {
        "$rfc2822" => Some(Value::from(now.to_string().replace("GMT", "+0000"))),
        "$iso" => Some(Value::from(format_rfc3339_seconds(now.into()).to_string().replace('Z', "+00:00"))),
        "$unix" => Some(Value::from(now.as_millis() / 1000)),
        _ => None,
    }
}

static RESOURCES: LazyLock<HashMap<String, Resource>> = LazyLock::new(|| {
    let mut file: Map<String, Value> =
        serde_json::from_str(include_str!("../../fixtures/bigcommerce_contract.json"))
            .expect("the crate's fixture files are JSON");
    file.remove("_about");
    file.into_iter()
        .map(|(name, resource)| (name, serde_json::from_value(resource).expect("a resource of the contract")))
        .collect()
});

/// A collection as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    answer: Map<String, Value>,
    #[serde(default)]
    line_answers: Map<String, Value>,
    create: Option<WrittenBody>,
    update: Option<WrittenBody>,
    several: Option<WrittenBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBody {
    status: u16,
    #[serde(default)]
    some: Vec<String>,
    /// Takes the members of that body too.
    like: Option<String>,
    body: Map<String, Value>,
}

impl From<Written> for Resource {
    fn from(written: Written) -> Resource {
        let create = written.create.map(|body| body.taken(None));
        let update = written.update.map(|body| body.taken(create.as_ref()));
        let several = written.several.map(|body| {
            let like = if body.like.as_deref() == Some("update") { &update } else { &create };
            body.taken(like.as_ref())
        });
        Resource { answer: written.answer, lines: written.line_answers, create, update, several }
    }
}

impl WrittenBody {
    fn taken(self, like: Option<&Taken>) -> Taken {
        let mut members = members_of(&self.body);
        let like = like.filter(|_| self.like.is_some());
        for member in like.into_iter().flat_map(|like| &like.members) {
            if members.iter().all(|own| own.name != member.name) {
                let rule = if member.rule == Rule::Required { Rule::Optional } else { member.rule };
                members.push(Member { rule, ..member.clone() });
            }
        }
        Taken { status: self.status, some: self.some, members }
    }
}

fn members_of(written: &Map<String, Value>) -> Vec<Member> {
    let member = |(name, kind): (&String, &Value)| {
        let rule = match name.chars().next() {
            Some('!') => Rule::Required,
            Some('~') => Rule::Ignored,
            Some('-') => Rule::Refused,
            Some('/') => Rule::Foreign,
            _ => Rule::Optional,
        };
        Member {
            name: name.trim_start_matches(['!', '~', '-', '/']).trim_end_matches('?').to_owned(),
            rule,
            may_be_null: name.ends_with('?'),
            kind: kind_of(kind),
        }
    };
    written.iter().map(member).collect()
}

fn kind_of(written: &Value) -> Kind {
    match written {
        Value::Array(inner) => Kind::List(Box::new(kind_of(inner.first().unwrap_or(&Value::Null)))),
        Value::Object(members) => Kind::Object(members_of(members)),
        other => match other.as_str().unwrap_or_default() {
            "text" => Kind::Text,
            "int" => Kind::Int,
            "number" => Kind::Number,
            "bool" => Kind::Bool,
            "money" => Kind::Money,
            "id" => Kind::Id,
            "map" => Kind::Map,
            "any" => Kind::Any,
            names => match names.strip_prefix("one of ") {
                Some(names) => Kind::OneOf(names.split('|').map(str::to_owned).collect()),
                None => panic!("the contract has no kind {names:?}"),
            },
        },
    }
}
