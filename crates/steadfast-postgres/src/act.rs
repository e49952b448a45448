//! Operators' actions: each locks one row, decides, and adds the entry of the audit record in the same commit.

use std::sync::Arc;

use steadfast_core::internal::store::{Standing, Stored};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Act, Action, Forbidden, Phase, Record};
use steadfast_core::store::StoreError;

use super::names::{Adopted, adopt};
use super::standing::Allowed;
use super::transaction::{Decision, Transaction, in_transaction};
use super::write::{self, AnswerChange};
use super::{Shared, sealed, sequence};

pub(super) async fn act(
    shared: &Arc<Shared>,
    id: &OperationId,
    act: Act,
) -> Result<Result<Record, Forbidden>, StoreError> {
    let id = id.clone();
    sealed::refresh_seals(shared).await?;
    let work = move |transaction: Transaction| {
        let (id, act) = (id.clone(), act.clone());
        async move {
            let ended = decide(&transaction, &id, act).await;
            transaction.finish(ended).await
        }
    };
    match in_transaction(shared, work).await? {
        Ok(stored) => stored.whole(&shared.seals).map(Ok),
        Err(forbidden) => Ok(Err(forbidden)),
    }
}

type Acted = Decision<Result<Box<Stored>, Forbidden>>;

async fn decide(transaction: &Transaction, id: &OperationId, act: Act) -> Result<Acted, StoreError> {
    let forbidden = |forbidden| Ok(Decision::Commit(Err(forbidden)));
    let to = match &act.action {
        Action::Adopt { to } => Some(OperationId::new(to.clone(), id.key.clone())),
        _ => None,
    };
    let names = std::iter::once(id).chain(to.as_ref().filter(|to| *to != id));
    let is_disowned = act.action == Action::Disown;
    let allowed: Allowed =
        if is_disowned { |standing| standing.check_act(&Action::Disown) } else { Standing::check_new };
    let mut found = transaction.lock(names, allowed).await?;
    let Some(stored) = found.remove(id) else { return forbidden(Forbidden::Absent) };
    let seals = &transaction.shared.seals;
    stored.check(seals)?;
    let (act, _) = act.rebased(found.now).seen_by(&mut found.notes.clone());
    let (record, entry) = match stored.record.act(&act) {
        Ok(acted) => acted,
        Err(why_not) => return forbidden(why_not),
    };
    if let Some(to) = to {
        let held = if to == *id { Some(stored.clone()) } else { found.remove(&to) };
        match adopt(transaction, &stored, (&to.scope, held), (act.now, &found.notes)).await? {
            Adopted::Done => {}
            Adopted::Forbidden(why_not) => return forbidden(why_not),
            Adopted::Again => return Ok(Decision::Retry),
        }
    }
    write::update(transaction, [&record]).await?;
    sequence::operation_updated(transaction, &record).await?;
    // An operator's action brings no answer: the stored answer stays as long as the state has one.
    let answer =
        if record.phase() == Phase::Scheduled { AnswerChange::Set(None) } else { AnswerChange::Keep };
    write::outcome(transaction, id, "", answer).await?;
    write::append_audit(transaction, &entry).await?;
    Ok(Decision::Commit(Ok(Box::new(Stored { record, ..stored }))))
}
