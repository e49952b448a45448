//! A dead letter with another body, under another key.
//!
//! An edited request is a new operation: the same key with another body is a mistake here, and at every vendor with
//! keys. The old one is resolved as replaced *first*. If the process dies between the two writes, neither key is
//! sent, and the same edit again completes it. The other order could leave both keys to be sent.

use std::time::Duration;

use bytes::Bytes;

use steadfast_core::operation::record::{
    Act, Action, Claim, Claimed, Forbidden, Phase, Record, Resolution, State, Transition,
};
use steadfast_core::operation::{Key, OperationId};
use steadfast_core::transport::Request;
use steadfast_core::{Effect, Error, Input, OnUnknown};

use super::{Change, DeadLetterError, DeadLetters};
use crate::client::Client;

impl DeadLetters {
    /// Replaces a dead letter by a new operation with another body, due at once. The old one's resolution names the
    /// new key, and the new one's audit record names the old.
    ///
    /// `key` is the new key, in the scope of the old. `body` is the whole new body, without a wire key: the new one is put
    /// in as in every call. `force` goes on although the old operation may have taken effect. That risks a second effect.
    /// A dry run gives the name that the new operation would have, and writes nothing.
    ///
    /// ```
    #[doc = include_str!("../docs/setup/dead_letters.md")]
    /// use steadfast::dead_letter::Change;
    /// use steadfast::operation::Key;
    ///
    /// let id = letters.find("order-42/receipt").await?;
    /// let body = r#"{"From":"shop@example.com","To":"bob@example.com","TextBody":"Paid."}"#;
    /// let change = Change::by("ada").because("the address was wrong");
    /// let new = letters.edit(&id, Key::new("order-42/receipt/2")?, body, &change).await?;
    /// assert_eq!(new.key.as_str(), "order-42/receipt/2");
    #[doc = include_str!("../docs/setup/end.md")]
    /// ```
    ///
    /// If an edit was cut short, the same edit again completes it. If another operation has taken the new key in
    /// between, the dead letter is open again, for an edit under a third key. A resolution *not applied* is to be given
    /// again then. In a [sequence](crate::Sequence) the new one takes the old one's place, unless the next one was taken in
    /// between: then it is sent after that.
    ///
    /// # Errors
    ///
    /// [`DeadLetterError::Refused`] if it is not an open dead letter, its vendor's rules are not known, the new key
    /// is taken, or the new body holds the old wire key. The same if it may have taken effect, unless the edit is
    /// forced or a person has said that it did not. [`DeadLetterError::Invalid`] if the vendor's adapter does not
    /// take the new body.
    pub async fn edit(
        &self,
        id: &OperationId,
        key: Key,
        body: impl Into<Bytes> + Send,
        how: &Change,
    ) -> Result<OperationId, DeadLetterError> {
        let old = self.record(id).await?;
        let refuse = |why| DeadLetterError::refused(id, why);
        let client = self.rules(&old).ok_or_else(|| refuse(Forbidden::NoRulesToStamp))?;
        let claim = self.successor(client, &old, key, body.into())?;
        let (new, fingerprint) = (claim.id.clone(), claim.fingerprint);
        let is_recorded = self.replace(&old, &claim, how).await?;
        if how.dry_run {
            return Ok(new);
        }
        if !is_recorded {
            let claimed = self.store.claim(claim).await.map_err(DeadLetterError::store("record the edit"))?;
            match claimed {
                Claimed::Fresh(record) | Claimed::TakenOver(record) | Claimed::Freed(record) => {
                    self.make_due(&record).await?;
                }
                // Of the same edit at the same time, or of another operation that has taken the key since.
                Claimed::Busy { .. } | Claimed::Settled(_) | Claimed::Mismatch { .. } => {}
                // It was replaced by this very key a moment ago; only its record's end is in the way.
                Claimed::InTheWay { .. } => return Err(refuse(Forbidden::Absent)),
            }
            let held = self.get(&new).await?;
            if held.is_some_and(|held| !is_edit(&held, &old) || held.fingerprint != fingerprint) {
                self.not_replaced(&old, &new, how).await?;
                return Err(refuse(Forbidden::KeyTaken));
            }
        }
        let link = Change::by(&how.by).because(link_text(&old, &how.why));
        self.act(&new, Action::Note, &link, None).await?;
        Ok(new)
    }

    /// The claim of the new operation, stamped as its vendor's client would.
    fn successor(
        &self,
        client: &Client,
        old: &Record,
        key: Key,
        body: Bytes,
    ) -> Result<Claim, DeadLetterError> {
        let vendor = &client.engine.vendor;
        if !old.wire_key.is_empty() && contains(&body, old.wire_key.as_bytes()) {
            return Err(DeadLetterError::refused(&old.id, Forbidden::OldWireKey));
        }
        let bytes_max = client.policy().request_bytes_max;
        if body.len() > bytes_max {
            let problem = format!("{} bytes are over the limit of {bytes_max}", body.len());
            return Err(DeadLetterError::Invalid(Error::validation(Input::Body, problem)));
        }
        let mut request = without_stamp(old);
        // A header may have become a secret since: what is new has none.
        for name in client.engine.secrets.names() {
            request.headers.remove(name);
        }
        let Some(url) = client.engine.address(&old.request.url) else {
            return Err(DeadLetterError::refused(&old.id, Forbidden::Elsewhere));
        };
        request.url = url.into_owned();
        request.body = body;
        let id = OperationId::new(old.id.scope.clone(), key);
        // The account on record, which these rules may not know, so that the service's own call is the same.
        let account = old.id.scope.account().unwrap_or_default();
        // By the path of its name, which may be that of a former base URL.
        let mut named = request.clone();
        named.url = old.request.url.clone();
        let fingerprint = vendor.fingerprint(&account, &named);
        let wire_key = vendor.stamp(id.wire_key(), &mut request)?;
        client.engine.secrets.check(&request)?;
        Ok(Claim {
            id,
            fingerprint,
            wire_key,
            request: request.into(),
            now: self.now(),
            lease: CLAIM_LEASE,
            // In a sequence it takes the place of the old one, and waits for its turn there.
            due: old.sequence.as_ref().map(|_| self.now()),
            keep: old.keep,
            on_unknown: OnUnknown::Park,
            attempt_max: client.policy().timeout.attempt,
            vendor_clock_ms: None,
            holder: Some(crate::holder::this_process()),
            redact: old.redact.clone(),
            predecessor: Some(old.id.key.clone()),
            sequence: old.sequence.as_deref().map(|place| place.sequence.clone()),
        })
    }

    /// Resolves the old operation as replaced, if it may be. Gives whether an earlier try of this edit has
    /// already recorded the new one: then it is the service's, and left alone.
    async fn replace(&self, old: &Record, claim: &Claim, how: &Change) -> Result<bool, DeadLetterError> {
        let refuse = |why| Err(DeadLetterError::refused(&old.id, why));
        let held = self.get(&claim.id).await?;
        let resolution = old.resolved.as_ref().map(|said| &said.resolution);
        let said_not_applied = resolution == Some(&Resolution::NotApplied);
        match (old.phase(), resolution) {
            (Phase::Resolved, Some(Resolution::Replaced { key })) if *key == claim.id.key => {
                return match held {
                    None => Ok(false),
                    Some(held) if is_edit(&held, old) && held.fingerprint == claim.fingerprint => Ok(true),
                    Some(_) if how.dry_run => refuse(Forbidden::KeyTaken),
                    // An earlier try of the edit may have been cut short before its claim.
                    Some(_) => {
                        self.not_replaced(old, &claim.id, how).await?;
                        refuse(Forbidden::KeyTaken)
                    }
                };
            }
            (Phase::Dead, _) | (Phase::Resolved, Some(Resolution::NotApplied)) => {}
            (Phase::Resolved, _) => return refuse(Forbidden::Resolved),
            _ => return refuse(Forbidden::NotDead),
        }
        if held.is_some() {
            return refuse(Forbidden::KeyTaken);
        }
        if old.effect == Effect::Unknown && !said_not_applied && !how.force {
            return refuse(Forbidden::MayHaveBeenApplied);
        }
        if how.dry_run {
            return Ok(false);
        }
        let fence = Some(old.fence);
        if said_not_applied {
            self.act(&old.id, Action::Reopen, how, fence).await?;
        }
        let resolution = Resolution::Replaced { key: claim.id.key.clone() };
        self.act(&old.id, Action::Resolve(resolution), how, fence).await?;
        Ok(false)
    }

    /// Opens the old operation again if the one under the new key is another that took the key since, and not the
    /// replacement that another edit recorded.
    async fn not_replaced(
        &self,
        old: &Record,
        new: &OperationId,
        how: &Change,
    ) -> Result<(), DeadLetterError> {
        let held = self.get(new).await?;
        if held.is_none_or(|held| is_edit(&held, old)) {
            return Ok(());
        }
        match self.act(&old.id, Action::NotReplaced { key: new.key.clone() }, how, Some(old.fence)).await {
            // The same edit at the same time has done so.
            Ok(_) | Err(DeadLetterError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn make_due(&self, record: &Record) -> Result<(), DeadLetterError> {
        let now = self.now();
        let transition = Transition {
            fence: record.fence,
            now,
            attempts: record.attempts,
            effect: record.effect,
            unknown_since: record.unknown_since,
            lookups: record.lookups,
            resends_left: record.resends_left,
            to: State::Scheduled { at: now },
            reports: Vec::new(),
        };
        let moved = self.store.transition(record, transition).await;
        // A decline means that somebody holds it already and sends it.
        moved.map(drop).map_err(DeadLetterError::store("make the edit due"))
    }
}

/// Whether it was recorded by an edit of the old operation. The service's own call replaces nothing, also if it is the same
/// request: it was sent for its own reasons, and the old operation is as open as before.
fn is_edit(held: &Record, old: &Record) -> bool {
    held.predecessor.as_ref() == Some(&old.id.key)
}

/// The old request, less the headers that carry its wire key in any form.
fn without_stamp(old: &Record) -> Request {
    let mut request = Request::clone(&old.request);
    let key = old.wire_key.as_bytes();
    let stamped: Vec<_> = request
        .headers
        .iter()
        .filter(|(_, value)| !key.is_empty() && contains(value.as_bytes(), key))
        .map(|(name, _)| name.clone())
        .collect();
    for name in stamped {
        request.headers.remove(name);
    }
    request
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The reason, after the link, within the bound of a reason.
fn link_text(old: &Record, why: &str) -> String {
    let mut text = format!("edited from key {}: {why}", old.id.key);
    text.truncate(text.floor_char_boundary(Act::WHY_BYTES_MAX));
    text
}

/// Lease between the claim of the new operation and its schedule. A process that dies in between leaves an operation
/// that was never sent; recovery takes it once this is over.
const CLAIM_LEASE: Duration = Duration::from_secs(30);
