//! The rules for a request's body: readable, of known members, each of its kind, complete.
//!
//! V2 was seen to refuse a member that is not its resource's, and of V3 nothing is documented. The fake refuses it
//! everywhere, as it does with parameters: a misspelt member that is taken silently is an effect without it.

use serde_json::{Map, Value, json};

use super::super::fixture::Reply;
use super::contract::{Kind, Member, Rule, Taken};
use super::items::number;
use super::machine::{Call, Machine, problem, problem_v2};

/// All that is wrong with a body, by the paths of its members.
#[derive(Debug, Default)]
struct Wrongs {
    unknown: Vec<String>,
    foreign: Vec<String>,
    read_only: Vec<String>,
    /// With what was expected instead.
    kinds: Vec<(String, &'static str)>,
    missing: Vec<String>,
}

impl Machine {
    /// The body without what is read-only, or the vendor's refusal of it.
    pub(super) fn read(&self, call: &Call<'_>, taken: &Taken) -> Result<Value, Reply> {
        self.read_part(call, taken, &call.body)
    }

    /// One object of a batch, likewise.
    pub(super) fn read_part(&self, call: &Call<'_>, taken: &Taken, sent: &Value) -> Result<Value, Reply> {
        let Some(fields) = sent.as_object() else { return Err(self.not_an_object(call)) };
        let mut wrongs = Wrongs::default();
        if !taken.some.is_empty() && !taken.some.iter().any(|name| has_rows(&sent[name.as_str()])) {
            wrongs.missing.extend(taken.some.first().cloned());
        }
        let read = wrongs.object(&taken.members, fields, "");
        match self.refusal(call, &wrongs) {
            Some(refused) => Err(refused),
            None => Ok(Value::Object(read)),
        }
    }

    fn refusal(&self, call: &Call<'_>, wrongs: &Wrongs) -> Option<Reply> {
        let lists = [
            (&wrongs.unknown, "The field '{}' is not supported by this resource."),
            (&wrongs.foreign, "The fake does not implement the field '{}' of BigCommerce."),
            (&wrongs.read_only, "The field '{}' is read-only."),
        ];
        if let Some((names, text)) = lists.iter().find(|(names, _)| !names.is_empty()) {
            let names = if call.is_v2() { names[0].clone() } else { names.join(", ") };
            return Some(self.refused_body(call, &text.replace("{}", &names)));
        }
        if let Some((name, expected)) = wrongs.kinds.first() {
            if call.is_v2() || is_refund(call) {
                return Some(self.refused_body(call, &format!("The field '{name}' is invalid.")));
            }
            let mut reply = self.fixtures.reply("v3_json_invalid").value();
            let error = |(name, expected): &(String, &str)| {
                (name.clone(), Value::from(format!("error.expected.{expected}")))
            };
            debug_assert!(!expected.is_empty());
            reply["errors"] = wrongs.kinds.iter().map(error).collect::<Map<_, _>>().into();
            return Some(Reply::json(422, &reply));
        }
        let first = wrongs.missing.first()?;
        if call.is_v2() || is_refund(call) {
            let text = format!("The required field '{first}' was not supplied.");
            return Some(self.refused_body(call, &text));
        }
        Some(self.without(&wrongs.missing))
    }

    /// V3's no to a write without what it needs.
    pub(super) fn without(&self, names: &[String]) -> Reply {
        let mut missing = self.fixtures.reply("v3_validation").value();
        let error = |name: &String| {
            let last = name.rsplit('.').next().unwrap_or(name);
            (name.clone(), Value::from(format!("Please provide a {last}.")))
        };
        missing["errors"] = names.iter().map(error).collect::<Map<_, _>>().into();
        Reply::json(422, &missing)
    }

    /// A no to a body, in the form of its resource.
    pub(super) fn refused_body(&self, call: &Call<'_>, text: &str) -> Reply {
        match call.is_v2() {
            true => problem_v2(400, text),
            false if is_refund(call) => self.refuses_refund(text),
            false => problem(422, text),
        }
    }

    /// The refusal of a body that is JSON, and no object.
    pub(super) fn not_an_object(&self, call: &Call<'_>) -> Reply {
        match call.is_v2() {
            true => problem_v2(400, "The JSON data provided is invalid."),
            false => self.not_json_of("jsobject"),
        }
    }
}

impl Wrongs {
    fn object(&mut self, members: &[Member], sent: &Map<String, Value>, within: &str) -> Map<String, Value> {
        let path = |name: &str| if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") };
        let mut read = Map::new();
        for (name, value) in sent {
            let Some(member) = members.iter().find(|member| member.name == *name) else {
                self.unknown.push(path(name));
                continue;
            };
            match member.rule {
                Rule::Ignored => {}
                Rule::Refused => self.read_only.push(path(name)),
                Rule::Foreign => self.foreign.push(path(name)),
                // It is missing.
                Rule::Required if is_nothing(value) => {}
                Rule::Optional | Rule::Required => {
                    let value = match value {
                        Value::Null if member.may_be_null => Value::Null,
                        value => self.value(&member.kind, value, &path(name)),
                    };
                    read.insert(name.clone(), value);
                }
            }
        }
        for member in members.iter().filter(|member| member.rule == Rule::Required) {
            if is_nothing(sent.get(&member.name).unwrap_or(&Value::Null)) {
                self.missing.push(path(&member.name));
            }
        }
        read
    }

    /// The value as it is held.
    fn value(&mut self, kind: &Kind, sent: &Value, path: &str) -> Value {
        let expected = match (kind, sent) {
            (Kind::Object(members), Value::Object(fields)) => {
                return Value::Object(self.object(members, fields, path));
            }
            (Kind::List(kind), Value::Array(rows)) => {
                let row = |(at, row): (usize, &Value)| self.value(kind, row, &format!("{path}.{at}"));
                return rows.iter().enumerate().map(row).collect();
            }
            (Kind::Money, value) if number(value).is_some_and(f64::is_finite) => {
                return Value::from(money(number(value).unwrap_or_default()));
            }
            (Kind::Id, Value::String(text)) if text.parse::<u64>().is_ok() => {
                return json!(text.parse::<u64>().unwrap_or_default());
            }
            (Kind::Text, Value::String(_))
            | (Kind::Int | Kind::Id, Value::Number(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::Bool, Value::Bool(_))
            | (Kind::Map, Value::Object(_))
            | (Kind::Any, _)
                if !matches!(kind, Kind::Int | Kind::Id) || is_whole(sent) =>
            {
                return sent.clone();
            }
            (Kind::OneOf(names), Value::String(name)) if names.contains(name) => return sent.clone(),
            (Kind::Text, _) => "jsstring",
            (Kind::Int | Kind::Id | Kind::Number | Kind::Money, _) => "jsnumber",
            (Kind::Bool, _) => "jsboolean",
            (Kind::List(_), _) => "jsarray",
            (Kind::OneOf(_), _) => "enum",
            (Kind::Object(_) | Kind::Map | Kind::Any, _) => "jsobject",
        };
        self.kinds.push((path.to_owned(), expected));
        Value::Null
    }
}

/// An amount of V2.
pub(super) fn money(amount: f64) -> String {
    format!("{amount:.4}")
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(rows) => rows.is_empty(),
        _ => false,
    }
}

/// Whether it is a list with a row, or an object of lists of which one has a row: an order's consignments are.
fn has_rows(value: &Value) -> bool {
    match value {
        Value::Array(rows) => !rows.is_empty(),
        Value::Object(lists) => lists.values().any(has_rows),
        _ => false,
    }
}

/// The errors of refunds have a form of their own.
fn is_refund(call: &Call<'_>) -> bool {
    matches!(call.route, ["v3", "orders", _, "payment_actions", "refunds"])
}
