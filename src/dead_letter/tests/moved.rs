//! Judgements that are stale by the time they are acted upon, and filters beside which letters go on dying.

use steadfast_core::BoxFuture;
use steadfast_core::operation::record::{Act, Page};
use steadfast_core::store::Wrapper;

use super::*;

/// A store in which something happens just before the first call of one kind.
struct Meanwhile {
    store: Arc<dyn Store>,
    before: Before,
    first: parking_lot::Mutex<Option<BoxFuture<'static, ()>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Act,
    Claim,
    List,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Meanwhile {
    async fn comes(&self, before: Before) {
        let first = if self.before == before { self.first.lock().take() } else { None };
        if let Some(first) = first {
            first.await;
        }
    }
}

#[async_trait::async_trait]
impl Wrapper for Meanwhile {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn act(&self, id: &OperationId, act: Act) -> Result<Result<Record, Forbidden>, StoreError> {
        self.comes(Before::Act).await;
        self.store.act(id, act).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.comes(Before::Claim).await;
        self.store.claim(claim).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Summary>, StoreError> {
        self.comes(Before::List).await;
        self.store.list(filter, after, limit).await
    }
}

/// Letters of a process that is slow.
pub(super) fn raced(
    bench: &Bench,
    before: Before,
    first: impl Future<Output = ()> + Send + 'static,
) -> DeadLetters {
    let first = parking_lot::Mutex::new(Some(Box::pin(first) as BoxFuture<'static, ()>));
    let store = Meanwhile { store: Arc::clone(&bench.store), before, first };
    DeadLetters::new(Arc::new(store)).with_clock(bench.clock.clone()).with_client(&bench.stripe)
}

/// A client none of whose requests gets out.
fn cut_off(bench: &Bench) -> Client {
    let network = ScriptedTransport::new().always_fail(SendErrorKind::Connect);
    client(Stripe::new("sk_test_1"), &bench.store, &bench.clock, &network)
}

/// Another person redrives the letter meanwhile, and it dies again: it is as it was, and another one.
#[tokio::test]
async fn a_letter_that_moved_since_it_was_judged_is_left_unchanged() {
    on_each_store(async |bench| {
        for verb in ["redrive", "resolve", "edit"] {
            let id = bench.never_sent(verb).await;
            let (letters, stripe, moved) = (bench.letters(), cut_off(&bench), id.clone());
            let raced = raced(&bench, Before::Act, async move {
                let redriven = redrive(&letters, &moved, &Change::by("eve")).await;
                assert_eq!(redriven.done, 1);
                stripe.recover(10).await.expect("a store");
            });
            let how = Change::by("ada").because("it was looked at");
            let why = match verb {
                "redrive" => held_back(&redrive(&raced, &id, &how).await)[0],
                "resolve" => refusal(raced.resolve(&id, Resolution::NotApplied, &how).await),
                _ => refusal(edit(&raced, &id, ("another", "amount=9")).await),
            };
            assert_eq!((why, bench.phase(&id).await), (Forbidden::Moved, Phase::Dead), "{verb}");
        }
    })
    .await;
}

/// A letter, or an operation that waits.
async fn begins(stripe: &Client, key: &str, is_letter: bool) {
    let call = stripe.post("/v1/quotes").key(key).form(&[("amount", "1000")]);
    if is_letter {
        call.send().await.expect_err("nothing gets out");
    } else {
        call.enqueue().await.expect("on record");
    }
}

#[tokio::test]
async fn a_filter_takes_no_letter_that_died_after_it_began() {
    on_each_store(async |bench| {
        let all = Filter::default();
        for verb in ["redrive", "resolve", "cancel"] {
            let is_letter = verb != "cancel";
            begins(&cut_off(&bench), &format!("{verb}-early"), is_letter).await;
            let (clock, stripe, late) = (bench.clock.clone(), cut_off(&bench), format!("{verb}-late"));
            let raced = raced(&bench, Before::List, async move {
                clock.advance(Duration::from_secs(1));
                begins(&stripe, &late, is_letter).await;
            });
            let how = Change::by("ada").because("an outage");
            let outcome = match verb {
                "redrive" => raced.redrive_all(&all, &how).await,
                "resolve" => raced.resolve_all(&all, Some(&Resolution::NotApplied), &how).await,
                _ => raced.cancel_all(&all, &how).await,
            };
            assert_eq!(outcome.expect("the store works").matched, 1, "{verb}");
            // The next verb begins with none.
            let letters = bench.letters();
            letters.resolve_all(&all, Some(&Resolution::Compensated), &how).await.expect("the store works");
            letters.cancel_all(&all, &how).await.expect("the store works");
            bench.clock.advance(Duration::from_secs(1));
        }
    })
    .await;
}

/// The second of two edits of one letter to one key never sends its body, and its operator reads why.
#[tokio::test]
async fn the_second_of_two_edits_at_once_fails_with_key_taken() {
    on_each_store(async |bench| {
        let id = bench.never_sent("order-1").await;
        let (letters, edited) = (bench.letters(), id.clone());
        let raced = raced(&bench, Before::Claim, async move {
            edit(&letters, &edited, ("order-1b", "amount=8")).await.expect("it is free");
        });
        assert_eq!(refusal(edit(&raced, &id, ("order-1b", "amount=9")).await), Forbidden::KeyTaken);
        let new = OperationId::new(id.scope.clone(), Key::new("order-1b").expect("a key"));
        let record = bench.store.get(&new).await.expect("works").expect("is there");
        assert_eq!((&record.request.body[..], record.phase()), (&b"amount=8"[..], Phase::Scheduled));
    })
    .await;
}
