//! A [`Filter`] as SQL, for any database with the columns of [`columns`](super::columns).

#![allow(missing_docs, reason = "for the crates of this workspace alone")]

use super::numbers::{effect_number, phase_number, reason_number, to_ms};
use crate::operation::record::{Filter, Phase};

/// Parts of the SQL that differ from one database to another.
pub struct Dialect<'a> {
    /// Stands for the value of this number; the first is 1.
    pub value: fn(usize) -> String,
    /// The column `scope` where its index must not be used, because the list is wanted in another order.
    pub scope: &'a str,
    /// A condition that any scope meets and that lets an index of `(scope, key)` find a key alone.
    pub in_any_scope: &'a str,
    /// A condition that dead letters alone meet, as the index has it that finds them.
    pub dead: &'a str,
    /// The column with the time at which something is due; null while it waits for its turn.
    pub due: &'a str,
    /// A condition that an operation of the sequence meets whose name this value has.
    pub in_sequence: fn(&str) -> String,
    /// A condition that an operation meets which holds its sequence.
    pub holds_sequence: &'a str,
}

/// A value that a statement is given beside its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// The conditions, each with ` AND ` behind it, and their values. A wire key has no index: it comes from a hash, so that
/// every claim would write to another page of it.
pub fn conditions(filter: &Filter, dialect: &Dialect<'_>) -> (String, Vec<Value>) {
    let Filter {
        vendor,
        account,
        scope,
        key,
        key_prefix,
        wire_key,
        phases,
        reason,
        // A list refuses it.
        code: _,
        effect,
        status,
        updated_from,
        updated_before,
        due_before,
        sequence,
        holds_sequence,
    } = filter;
    let text = |text: &str| Value::Text(text.to_owned());
    let mut conditions = Conditions { dialect, clauses: String::new(), values: Vec::new() };
    conditions.add("vendor =", vendor.as_deref().map(text));
    if let Some(account) = account {
        // What stands behind it is the route, or an account that is reached through it. A path of fewer parts is none.
        if account.matches('/').count() != 2 {
            conditions.add_constant("1 = 0");
        }
        for (compared, end) in [("(substr", "/"), ("substr", ">")] {
            let length = account.chars().count() + 1;
            conditions.values.push(text(&format!("{account}{end}")));
            let value = (dialect.value)(conditions.values.len());
            let joined = if end == "/" { " OR " } else { ") AND " };
            conditions
                .clauses
                .push_str(&format!("{compared}({}, 1, {length}) = {value}{joined}", dialect.scope));
        }
    }
    let by_scope = format!("{} =", if key.is_some() { "scope" } else { dialect.scope });
    conditions.add(&by_scope, scope.as_ref().map(|scope| text(scope.as_str())));
    if key.is_some() && scope.is_none() {
        conditions.add_constant(dialect.in_any_scope);
    }
    conditions.add("key =", key.as_ref().map(|key| text(key.as_str())));
    if let Some(prefix) = key_prefix {
        let begins = format!("substr(key, 1, {}) =", prefix.chars().count());
        conditions.add(&begins, Some(text(prefix)));
    }
    conditions.add("wire_key =", wire_key.as_deref().map(text));
    conditions.add_phases(phases);
    conditions.add("phase > 4 AND detail =", reason.and_then(reason_number).map(Value::Number));
    // A holder may be sending.
    conditions.add(
        "CASE phase WHEN 1 THEN 1 ELSE effect END =",
        effect.map(|effect| Value::Number(effect_number(effect))),
    );
    conditions.add("status =", status.map(|status| Value::Number(i64::from(status))));
    conditions.add("updated_at_ms >=", updated_from.map(|at| Value::Number(to_ms(at))));
    conditions.add("updated_at_ms <", updated_before.map(|at| Value::Number(to_ms(at))));
    let due = format!("phase = 2 AND {} <", dialect.due);
    conditions.add(&due, due_before.map(|at| Value::Number(to_ms(at))));
    if let Some(name) = sequence {
        conditions.values.push(text(name));
        let value = (dialect.value)(conditions.values.len());
        conditions.add_constant(&(dialect.in_sequence)(&value));
    }
    if *holds_sequence {
        conditions.add_constant(dialect.dead);
        conditions.add_constant(dialect.holds_sequence);
    }
    (conditions.clauses, conditions.values)
}

struct Conditions<'a> {
    dialect: &'a Dialect<'a>,
    clauses: String,
    values: Vec<Value>,
}

impl Conditions<'_> {
    fn add(&mut self, compared: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.values.push(value);
            let value = (self.dialect.value)(self.values.len());
            self.add_constant(&format!("{compared} {value}"));
        }
    }

    fn add_constant(&mut self, clause: &str) {
        self.clauses.push_str(clause);
        self.clauses.push_str(" AND ");
    }

    /// Writes the phases into the text, since an index on a part of a table is not used for a value that is bound
    /// later. There is one of dead letters, and one of what is open.
    fn add_phases(&mut self, phases: &[Phase]) {
        if let [Phase::Dead] = phases[..] {
            return self.add_constant(self.dialect.dead);
        }
        if phases.is_empty() {
            return;
        }
        if phases.iter().all(|phase| matches!(phase, Phase::InProgress | Phase::Scheduled)) {
            self.add_constant("phase < 3");
        }
        let numbers: Vec<String> = phases.iter().map(|phase| phase_number(*phase).to_string()).collect();
        self.add_constant(&format!("phase IN ({})", numbers.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::effect::Effect;
    use crate::error::Reason;
    use crate::operation::{Key, Scope};

    #[test]
    fn a_dialect_with_numbered_values_gets_them_in_order() {
        let dialect = Dialect {
            value: |number| format!("${number}"),
            scope: "scope",
            in_any_scope: "scope IN (SELECT name FROM scope)",
            dead: "phase = 5",
            due: "wake_ms",
            in_sequence: |name| format!("number IN (SELECT o FROM s WHERE name = {name})"),
            holds_sequence: "held",
        };
        let all = Filter {
            vendor: Some("n/v".into()),
            account: Some("n/v/a".into()),
            scope: Some(Scope::from_stored("n/v/a/POST /x")),
            key: None,
            key_prefix: Some("order-".into()),
            wire_key: Some("w".into()),
            phases: vec![Phase::Scheduled, Phase::InProgress],
            reason: Some(Reason::Unknown),
            code: None,
            effect: Some(Effect::Applied),
            status: Some(503),
            updated_from: Some(Timestamp::from_millis(5)),
            updated_before: Some(Timestamp::from_millis(u64::MAX)),
            due_before: Some(Timestamp::from_millis(6)),
            sequence: Some("customer-7".into()),
            holds_sequence: true,
        };
        let (clauses, values) = conditions(&all, &dialect);
        assert_eq!(
            clauses,
            "vendor = $1 AND (substr(scope, 1, 6) = $2 OR substr(scope, 1, 6) = $3) AND scope = $4 AND \
             substr(key, 1, 6) = $5 AND wire_key = $6 AND phase < 3 AND phase IN (2, 1) AND phase > 4 AND detail = $7 \
             AND CASE phase WHEN 1 THEN 1 ELSE effect END = $8 AND status = $9 AND updated_at_ms >= $10 \
             AND updated_at_ms < $11 AND phase = 2 AND wake_ms < $12 AND number IN (SELECT o FROM s WHERE name = $13) \
             AND phase = 5 AND held AND "
        );
        let (text, number) = (|text: &str| Value::Text(text.to_owned()), Value::Number);
        assert_eq!(
            values,
            [
                text("n/v"),
                text("n/v/a/"),
                text("n/v/a>"),
                text("n/v/a/POST /x"),
                text("order-"),
                text("w"),
                number(2),
                number(2),
                number(503),
                number(5),
                number(i64::MAX),
                number(6),
                text("customer-7")
            ]
        );
        let key = Filter { key: Key::new("order-42").ok(), ..Filter::default() };
        assert_eq!(conditions(&key, &dialect).0, "scope IN (SELECT name FROM scope) AND key = $1 AND ");
        assert_eq!(conditions(&Filter::default(), &dialect), (String::new(), Vec::new()));
    }
}
