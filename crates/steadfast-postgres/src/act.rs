//! Operators' actions: each locks one row, decides, and adds the entry of the audit record in the same commit.

use std::sync::Arc;

use steadfast_core::internal::store::{Standing, Stored};
use steadfast_core::operation::OperationId;
use steadfast_core::operation::record::{Act, Action, Forbidden, Phase, Record};
use steadfast_core::store::StoreError;

use super::names::{Adopted, adopt};
use super::standing::Allowed;
use super::transaction::{Turn, Within, in_transaction};
use super::write::{self, OnFile};
use super::{Shared, sealed, sequence};

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
    // An operator's action brings no answer: the stored answer stays as long as the state has one.
    let answer = if record.phase() == Phase::Scheduled { OnFile::Now(None) } else { OnFile::Kept };
    write::outcome(within, id, "", answer).await?;
    write::log(within, &entry).await?;
    Ok(Turn::Done(Ok(Box::new(Stored { record, ..stored }))))
}
