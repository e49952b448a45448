//! The members that Stripe's resources are made of: the fixture files `stripe_contract.json` and
//! `stripe_v2_contract.json`, read once. `stripe_events.txt` has the types of its events.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One resource, such as `payment_intents`.
#[derive(Debug, Deserialize)]
#[serde(from = "Written")]
pub(super) struct Resource {
    pub(super) object: String,
    pub(super) prefix: String,
    pub(super) created: bool,
    pub(super) livemode: bool,
    /// The fields that every object has, as they are before a request sets anything.
    pub(super) fields: Map<String, Value>,
    /// The fields that an object may have and shows once a request sets them.
    pub(super) echo: Vec<String>,
    /// The members that complete a hash that a request sets.
    pub(super) shapes: Map<String, Value>,
    /// `None` where a request cannot create one.
    pub(super) create: Option<Vec<Field>>,
    pub(super) update: Option<Vec<Field>>,
    /// The filters of its list.
    pub(super) list: Vec<Field>,
    /// Where an object has an id that may be expanded, and the resource of that id.
    pub(super) expand: BTreeMap<String, String>,
}

/// A parameter.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Text,
    Int,
    /// A number that may be negative, as an amount is where it credits.
    Signed,
    /// A number that may be zero, as an amount is where something is free.
    Whole,
    Number,
    Bool,
    /// A number as text, of any precision.
    Decimal,
    OneOf(Vec<String>),
    Metadata,
    /// The id of an object of this resource.
    Id(String),
    /// A number, or bounds.
    Range,
    List(Box<Kind>),
    Hash(Vec<Field>),
}

impl Kind {
    /// One of these names, which stand apart by blanks.
    pub(super) fn one_of(names: &str) -> Kind {
        Kind::OneOf(names.split(' ').map(str::to_owned).collect())
    }
}

impl Resource {
    /// The one of this name.
    pub(super) fn named(name: &str) -> Option<&'static Resource> {
        RESOURCES.get(name)
    }

    /// The field of an update that has this name.
    pub(super) fn updated(&self, name: &str) -> Option<Field> {
        self.update.iter().flatten().find(|field| field.name == name).cloned()
    }

    /// The name of the resource whose ids begin so.
    pub(super) fn with_prefix(prefix: &str) -> Option<&'static str> {
        RESOURCES.iter().find(|(_, resource)| resource.prefix == prefix).map(|(name, _)| name.as_str())
    }

    /// Whether an object shows this parameter.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.fields.contains_key(name) || self.echo.iter().any(|known| known == name)
    }
}

static RESOURCES: LazyLock<HashMap<String, Resource>> = LazyLock::new(|| {
    let mut file: Map<String, Value> =
        serde_json::from_str(include_str!("../../fixtures/stripe_contract.json"))
            .expect("the crate's fixture files are JSON");
    file.remove("_about");
    file.into_iter()
        .map(|(name, resource)| (name, serde_json::from_value(resource).expect("a resource of the contract")))
        .collect()
});

/// Whether Stripe has events of this type.
pub(super) fn is_event(kind: &str) -> bool {
    EVENTS.binary_search(&kind).is_ok()
}

static EVENTS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../fixtures/stripe_events.txt").lines();
    let mut kinds: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    kinds.sort_unstable();
    kinds
});

/// The fields that a call of v2's takes in its body.
pub(super) fn v2_body(call: &str) -> &'static [Field] {
    V2_BODIES.get(call).map_or(&[], Vec::as_slice)
}

static V2_BODIES: LazyLock<HashMap<String, Vec<Field>>> = LazyLock::new(|| {
    let file: Map<String, Value> =
        serde_json::from_str(include_str!("../../fixtures/stripe_v2_contract.json"))
            .expect("the crate's fixture files are JSON");
    let bodies = file.into_iter().filter_map(|(call, fields)| match fields {
        Value::Object(fields) => Some((call, fields_of(&fields))),
        _ => None,
    });
    bodies.collect()
});

/// A resource as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    object: String,
    prefix: String,
    created: bool,
    livemode: bool,
    fields: Map<String, Value>,
    nulls: Vec<String>,
    #[serde(default)]
    echo: Vec<String>,
    #[serde(default)]
    shapes: Map<String, Value>,
    create: Option<Map<String, Value>>,
    #[serde(default)]
    update: Vec<String>,
    #[serde(default)]
    update_more: Map<String, Value>,
    #[serde(default)]
    list: Map<String, Value>,
    #[serde(default)]
    expand: BTreeMap<String, String>,
}

impl From<Written> for Resource {
    fn from(written: Written) -> Resource {
        let mut fields = written.fields;
        fields.extend(written.nulls.into_iter().map(|name| (name, Value::Null)));
        let create = written.create.as_ref().map(fields_of);
        let mut update = fields_of(&written.update_more);
        for field in create.iter().flatten().filter(|field| written.update.contains(&field.name)) {
            update.push(Field { required: false, ..field.clone() });
        }
        Resource {
            object: written.object,
            prefix: written.prefix,
            created: written.created,
            livemode: written.livemode,
            fields,
            echo: written.echo,
            shapes: written.shapes,
            create,
            update: Some(update).filter(|update| !update.is_empty()),
            list: fields_of(&written.list),
            expand: written.expand,
        }
    }
}

fn fields_of(written: &Map<String, Value>) -> Vec<Field> {
    let field = |(name, kind): (&String, &Value)| {
        let required = kind.as_str().or_else(|| kind[0].as_str()).is_some_and(|kind| kind.starts_with('!'));
        Field { name: name.clone(), required, kind: kind_of(kind) }
    };
    written.iter().map(field).collect()
}

fn kind_of(written: &Value) -> Kind {
    match written {
        Value::Array(inner) => Kind::List(Box::new(kind_of(inner.first().unwrap_or(&Value::Null)))),
        Value::Object(fields) => Kind::Hash(fields_of(fields)),
        other => match other.as_str().unwrap_or_default().trim_start_matches('!') {
            "int" => Kind::Int,
            "signed" => Kind::Signed,
            "whole" => Kind::Whole,
            "event" => Kind::OneOf(EVENTS.iter().copied().chain(["*"]).map(str::to_owned).collect()),
            "number" => Kind::Number,
            "bool" => Kind::Bool,
            "decimal" => Kind::Decimal,
            "metadata" => Kind::Metadata,
            "range" => Kind::Range,
            text => match (text.strip_prefix("one of "), text.strip_prefix("id of ")) {
                (Some(names), _) => Kind::one_of(names),
                (None, Some(resource)) => Kind::Id(resource.to_owned()),
                (None, None) => Kind::Text,
            },
        },
    }
}
