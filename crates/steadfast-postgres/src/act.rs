//! Operators' actions: one row, locked and decided upon, and the entry of the audit record in the same commit.

use std::sync::Arc;

use tokio_postgres::types::Type;

use steadfast_core::internal::store::{Standing, Stored};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Act, Action, Forbidden, Phase, Record};
use steadfast_core::store::StoreError;

use super::Shared;
use super::names::{Adopted, adopt};
use super::row::Value;
use super::standing::Allowed;
use super::transaction::{Turn, Within, in_transaction};
use super::write::{self, OnFile};
use super::{sealed, sequence};

pub(super) async fn act(
    shared: &Arc<Shared>,
    id: &OperationId,
    act: Act,
) -> Result<Result<Record, Forbidden>, StoreError> {
    let id = id.clone();
    sealed::learn(shared).await?;
    let work = move |within: Within| {
        let (id, act) = (id.clone(), act.clone());
        async move {
            let ended = decide(&within, &id, act).await;
            within.ended(ended).await
        }
    };
    match in_transaction(shared, work).await? {
        Ok(stored) => stored.whole(&shared.seals).map(Ok),
        Err(forbidden) => Ok(Err(forbidden)),
    }
}

type Acted = Turn<Result<Box<Stored>, Forbidden>>;

async fn decide(within: &Within, id: &OperationId, act: Act) -> Result<Acted, StoreError> {
    let forbidden = |forbidden| Ok(Turn::Done(Err(forbidden)));
    let to = match &act.action {
        Action::Adopt { to } => Some(OperationId::new(to.clone(), id.key.clone())),
        _ => None,
    };
    let names = std::iter::once(id).chain(to.as_ref().filter(|to| *to != id));
    let is_disowned = act.action == Action::Disown;
    let allowed: Allowed =
        if is_disowned { |standing| standing.check_act(&Action::Disown) } else { Standing::check_new };
    let mut found = within.lock(names, allowed).await?;
    let Some(stored) = found.remove(id) else { return forbidden(Forbidden::Absent) };
    let seals = &within.shared.seals;
    stored.check(seals)?;
    let is_scrub = matches!(act.action, Action::Scrub { .. });
    let stored = if is_scrub { stored.with_request(seals)? } else { stored };
    let (act, _) = act.rebased(found.now).seen_by(&mut found.notes.clone());
    let (record, entry) = match stored.record.act(&act) {
        Ok(acted) => acted,
        Err(why_not) => return forbidden(why_not),
    };
    if let Some(to) = to {
        let held = if to == *id { Some(stored.clone()) } else { found.remove(&to) };
        match adopt(within, &stored, (&to.scope, held), (act.now, &found.notes)).await? {
            Adopted::Done => {}
            Adopted::Forbidden(why_not) => return forbidden(why_not),
            Adopted::Again => return Ok(Turn::Again),
        }
    }
    write::update(within, [&record]).await?;
    sequence::moved(within, &record).await?;
    // An operator's action brings no answer: what is on file stays as long as the state has one.
    let answer = if record.phase() == Phase::Scheduled { OnFile::Now(None) } else { OnFile::Kept };
    write::outcome(within, id, "", answer).await?;
    if is_scrub {
        write_request(within, &record).await?;
    }
    write::log(within, &entry).await?;
    Ok(Turn::Done(Ok(Box::new(Stored { record, ..stored }))))
}

/// Writes the request of a record that was scrubbed, and its flag.
async fn write_request(within: &Within, record: &Record) -> Result<(), StoreError> {
    let blob = within.shared.seals.request(&record.id, &record.request)?;
    let schema = within.shared.connections.schema();
    let sql = format!("UPDATE {schema}.request SET request = $3, secrets = $4 WHERE scope = $1 AND key = $2");
    let values: [Value<'_>; 4] = [
        (&record.id.scope.as_str(), Type::TEXT),
        (&record.id.key.as_str(), Type::TEXT),
        (&blob, Type::BYTEA),
        (&record.holds_secrets(), Type::BOOL),
    ];
    within.ask("write a request without its secrets", &sql, &values).await?;
    write::set_seal(within, &record.id).await
}
