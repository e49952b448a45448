//! The JSON forms of what [`DeadLetters`](super::DeadLetters) gives: one vocabulary for the command line, the
//! export and a service's own pages. Times are milliseconds since the Unix epoch, in names that end in `_ms`.
//! Fields are added, never renamed.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use steadfast_core::AttemptReport;
use steadfast_core::internal::operation::{name, resolution, summary};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Action, AuditEntry, Forbidden, Phase};

use super::outcome::Of;
use super::{
    AccountStatus, Closed, Group, Outcome, RouteStatus, Safety, Shown, Stats, Status, Unreached, age,
};

macro_rules! serialize_as {
    ($($kind:ty => $form:expr;)*) => {
        $(impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let form: fn(&$kind) -> Value = $form;
                form(self).serialize(serializer)
            }
        })*
    };
}

serialize_as! {
    Group => |group| {
        let Group { vendor, reason, effect, status, code, .. } = group;
        json!({
            "vendor": vendor, "reason": reason, "effect": effect, "status": status, "code": code,
            "count": group.count,
            "oldest_ms": group.oldest.as_millis(), "newest_ms": group.newest.as_millis(),
        })
    };
    Outcome => outcome;
    Unreached => |unreached| json!({
        "account": unreached.account, "phase": unreached.phase.name(), "count": unreached.count,
    });
    Stats => |stats| {
        let group = |group: &steadfast_core::operation::record::Tally| json!({
            "vendor": group.vendor, "phase": group.phase.name(), "count": group.count,
            "oldest_ms": group.oldest.as_millis(),
            "oldest_age_ms": millis(age(stats.now, group.oldest)),
        });
        let total = |phase: Phase| (phase.name().to_owned(), json!(stats.count(phase)));
        let totals: Map<String, Value> = Phase::ALL.into_iter().map(total).collect();
        json!({
            "now_ms": stats.now.as_millis(),
            "totals": totals,
            "groups": stats.groups.iter().map(group).collect::<Vec<_>>(),
            "outbox": stats.outbox.iter().map(|group| json!({
                "namespace": group.namespace, "vendor": group.vendor, "account": group.account,
                "waiting": group.waiting,
                "oldest_ms": group.oldest.map(steadfast_core::clock::Timestamp::as_millis),
                "oldest_age_ms": group.oldest.map(|oldest| millis(age(stats.now, oldest))),
                "rejected": group.rejected,
                "admitted": !stats.unadmitted.contains(&format!("{}/{}/{}", group.namespace, group.vendor, group.account)),
            })).collect::<Vec<_>>(),
            "held_sequences": stats.held.iter().map(|held| Value::Object(summary(held))).collect::<Vec<_>>(),
            "held_sequences_more": stats.held_more,
        })
    };
    Status => |status| json!({
        "now_ms": status.now.as_millis(),
        "accounts": status.accounts.iter().map(account).collect::<Vec<_>>(),
        "rejected_rows": status.rejected_rows,
    });
    Shown => shown;
}

fn account(it: &AccountStatus) -> Value {
    let time = |time: Option<steadfast_core::clock::Timestamp>| {
        time.map(steadfast_core::clock::Timestamp::as_millis)
    };
    let closed = |it: &Closed| {
        json!({
            "gate": it.gate, "route": it.route, "since_ms": time(it.since), "until_ms": time(it.until),
            "dispatchers": it.dispatchers,
        })
    };
    let route = |it: &RouteStatus| {
        json!({
            "route": it.route, "waiting": it.waiting, "tried": it.tried, "last": it.last.as_ref().map(attempt),
        })
    };
    json!({
        "account": it.account, "waiting": it.waiting, "overdue": it.overdue, "tried": it.tried, "behind": it.behind,
        "late": it.late, "under_way": it.under_way, "dead": it.dead, "in_outbox": it.in_outbox, "is_unknown": it.is_unknown,
        "next_due_ms": time(it.next_due), "dispatchers": it.dispatchers, "per_second": it.per_second,
        "gone_in_ms": it.gone_in().map(millis),
        "closed": it.closed.iter().map(closed).collect::<Vec<_>>(),
        "routes": it.routes.iter().map(route).collect::<Vec<_>>(),
    })
}

fn outcome(outcome: &Outcome) -> Value {
    let held_back = |(id, why): &(OperationId, Forbidden)| {
        let mut form = name(id);
        form.insert("why".to_owned(), json!(why.code()));
        form.insert("problem".to_owned(), json!(why.to_string()));
        Value::Object(form)
    };
    let why_held_back: Vec<_> = outcome.why_held_back.iter().map(held_back).collect();
    let reason = |(why, count): &(Forbidden, u64)| json!({ "why": why.code(), "problem": why.to_string(), "count": count });
    let reasons: Vec<_> = outcome.reasons.iter().map(reason).collect();
    match outcome.of {
        Of::Redrive => json!({
            "dry_run": outcome.dry_run,
            "matched": outcome.matched,
            "due": outcome.done,
            "forced": outcome.forced,
            "looked_up": outcome.looked_up,
            "held_back": outcome.held_back,
            "why_held_back": why_held_back,
            "reasons": reasons,
            "frozen_at_ms": outcome.frozen_at.map(steadfast_core::clock::Timestamp::as_millis),
        }),
        Of::Resolution | Of::Cancellation => {
            let done = if outcome.of == Of::Resolution { "resolved" } else { "cancelled" };
            json!({
                "dry_run": outcome.dry_run,
                "matched": outcome.matched,
                done: outcome.done,
                "held_back": outcome.held_back,
                "why_held_back": why_held_back,
                "reasons": reasons,
                "frozen_at_ms": outcome.frozen_at.map(steadfast_core::clock::Timestamp::as_millis),
            })
        }
        Of::Adoption => json!({
            "dry_run": outcome.dry_run,
            "matched": outcome.matched,
            "adopted": outcome.done,
            "held_back": outcome.held_back,
            "why_held_back": why_held_back,
            "reasons": reasons,
        }),
    }
}

fn shown(shown: &Shown) -> Value {
    let mut form = summary(&shown.summary);
    // Also where there is none: readers know this member.
    form.insert("code".to_owned(), json!(shown.summary.code));
    form.insert("redrive".to_owned(), json!(shown.safety.map(|it| safety(it, shown.overwrites))));
    form.insert("began_at_ms".to_owned(), json!(shown.began_at().as_millis()));
    form.insert("predecessor".to_owned(), json!(shown.predecessor));
    form.insert("first_scope".to_owned(), json!(shown.first_scope));
    form.insert("holder".to_owned(), json!(shown.holder.as_deref()));
    let request = &shown.request;
    form.insert(
        "request".to_owned(),
        json!({
            "method": shown.method.as_str(), "url": shown.url, "headers": request.headers,
            "body_bytes": request.body_bytes, "body": body(&request.body),
        }),
    );
    let reply = shown.reply.as_ref().map(|reply| {
        json!({
            "status": shown.summary.status, "headers": reply.headers, "body_bytes": reply.body_bytes,
            "body": body(&reply.body), "cut": reply.cut,
        })
    });
    form.insert("reply".to_owned(), json!(reply));
    form.insert("says".to_owned(), json!(shown.says));
    form.insert("log".to_owned(), shown.attempts.iter().map(attempt).collect());
    form.insert("account".to_owned(), shown.account.as_ref().map_or(Value::Null, account));
    form.insert("audit".to_owned(), shown.audit.iter().map(entry).collect());
    Value::Object(form)
}

fn safety(safety: Safety, overwrites: bool) -> Value {
    let until = match safety {
        Safety::WindowOpen { until } => Some(until.as_millis()),
        _ => None,
    };
    json!({ "safe": safety.is_safe(), "because": safety.name(), "until_ms": until, "overwrites": overwrites })
}

fn body(body: &Result<String, &'static str>) -> Value {
    match body {
        Ok(text) => json!({ "text": text }),
        Err(why) => json!({ "withheld": why }),
    }
}

fn attempt(report: &AttemptReport) -> Value {
    json!({
        "number": report.number,
        "started_at_ms": report.started_at.as_millis(),
        "latency_ms": millis(report.latency),
        "status": report.status,
        "failure_kind": report.failure_kind,
        "failure": report.failure,
        "verdict": report.verdict,
        "effect": report.effect,
        "wait_ms": report.wait.map(millis),
    })
}

fn entry(entry: &AuditEntry) -> Value {
    let said = match &entry.action {
        Action::Resolve(said) => Some(said),
        _ => None,
    };
    let mut form = resolution(said);
    let rest = json!({
        "at_ms": entry.at.as_millis(), "action": entry.action.name(),
        "forced": entry.action == (Action::Redrive { forced: true }),
        "by": entry.by, "why": entry.why, "before": entry.before.name(), "after": entry.after.name(),
    });
    if let Value::Object(rest) = rest {
        form.extend(rest);
    }
    Value::Object(form)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
