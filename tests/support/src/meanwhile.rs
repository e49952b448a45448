//! The events while a call writes: another host sends, or another call is told to leave the vendor alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use steadfast::clock::{Clock as _, Instant};
use steadfast::dead_letter::{Change, DeadLetters};
use steadfast::operation::record::{Claim, Claimed, Declined, Filter, Record, State, Transition};
use steadfast::policy::Backoff;
use steadfast::store::{Memory, Store, StoreError, Wrapper};
use steadfast::testkit::fakes::StripeFake;
use steadfast::testkit::{Fault, FixedRandom, ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::vendor::{Stripe, Vendor};
use steadfast::{Call, Client, Error, OnUnknown, Policy};

/// A store that does something once it has carried out a write, before its caller knows.
struct Then<F> {
    store: Arc<Memory>,
    then: F,
}

/// The write that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    Claim,
    Renewal,
    Refusal,
    Burial,
}

impl<F> std::fmt::Debug for Then<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Then").finish_non_exhaustive()
    }
}

#[async_trait]
impl<F, W> Wrapper for Then<F>
where
    F: Fn(Wrote) -> W + Send + Sync + 'static,
    W: Future<Output = ()> + Send,
{
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let claimed = self.store.claim(claim).await;
        (self.then)(Wrote::Claim).await;
        claimed
    }

    async fn transition(
        &self,
        record: &Record,
        transition: Transition,
    ) -> Result<Result<Record, Declined>, StoreError> {
        let wrote = match transition.to {
            State::InProgress { .. } => Some(Wrote::Renewal),
            State::Refused { .. } => Some(Wrote::Refusal),
            State::Dead { .. } => Some(Wrote::Burial),
            _ => None,
        };
        let moved = self.store.transition(record, transition).await;
        if let Some(wrote) = wrote {
            (self.then)(wrote).await;
        }
        moved
    }
}

fn client<V: Vendor>(
    (vendor, policy): (V, Policy),
    network: ScriptedTransport,
    clock: &TestClock,
    store: impl Store,
) -> Client {
    Client::builder(vendor)
        .policy(policy)
        .transport(network)
        .clock(clock.clone())
        .random(FixedRandom::at(0.0))
        .store(store)
        .namespace("test")
        .build()
        .expect("a client")
}

fn charge(client: &Client) -> Call {
    client.post("/charges").key("k").json(&json!({"amount": 4711}))
}

/// The error that a caller is told whose operation ended without an effect as `what`: its credentials were refused, or
/// it is a dead letter. Its host stands still once that is on record. Meanwhile another host may have sent the
/// operation, with the right credentials, or because a person redrove it.
pub async fn told_late<V: Vendor + Clone>(
    (vendor, policy): (V, Policy),
    what: Wrote,
    stands_still: Duration,
    is_sent: bool,
) -> Error {
    let (clock, store) = (TestClock::auto(), Arc::new(Memory::new()));
    let of = (vendor, policy.backoff(Backoff::none()));
    let other = client(of.clone(), ScriptedTransport::new().status(200), &clock, Arc::clone(&store));
    let letters = DeadLetters::new(store.clone()).with_clock(clock.clone()).with_client(&other);
    let (time, is_late) = (clock.clone(), what);
    let then = move |wrote: Wrote| {
        let (time, other, letters) = (time.clone(), other.clone(), letters.clone());
        async move {
            if wrote != is_late {
                return;
            }
            time.advance(stands_still);
            if is_sent && what == Wrote::Refusal {
                charge(&other).send().await.expect("it has the new secret");
            } else if is_sent {
                let all = Filter::default();
                let redriven = letters.redrive_all(&all, &Change::by("ann")).await;
                assert_eq!(redriven.expect("the store works").done, 1);
                assert_eq!(other.recover(1).await.expect("the store works").succeeded, 1);
            }
        }
    };
    let network = ScriptedTransport::new();
    let network =
        if what == Wrote::Refusal { network.status(401) } else { network.fail(SendErrorKind::Connect) };
    let sent = charge(&client(of, network, &clock, Then { store, then })).send().await;
    sent.expect_err("it had no effect")
}

/// When a vendor asked to be left alone for [`ASKED`], in an answer to another call that came while this one wrote
/// `what`; and when this one was sent. Its first send is none, so that there is a second.
pub async fn asked_meanwhile<V: Vendor + Clone>(of: (V, Policy), what: Wrote) -> (Instant, Vec<Instant>) {
    meanwhile(of, what, (SendErrorKind::Connect, OnUnknown::Park)).await
}

/// How often a call is sent whose caller accepts one repeat, if the first answer is lost. Another call is told to leave the
/// vendor alone while the repeat is written down.
pub async fn repeat_put_off<V: Vendor + Clone>(of: (V, Policy)) -> usize {
    meanwhile(of, Wrote::Renewal, (SendErrorKind::Reset, OnUnknown::Resend)).await.1.len()
}

/// `first` is what the first send meets.
async fn meanwhile<V: Vendor + Clone>(
    of: (V, Policy),
    what: Wrote,
    (first, on_unknown): (SendErrorKind, OnUnknown),
) -> (Instant, Vec<Instant>) {
    let clock = TestClock::auto();
    let (sent, asked_at) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
    let (times, watch) = (sent.clone(), clock.clone());
    let network = ScriptedTransport::new().always_with(move |_| {
        let mut times = times.lock();
        times.push(watch.now());
        Err(if times.len() == 1 { first } else { SendErrorKind::Reset })
    });
    let told: Arc<Mutex<Option<Client>>> = Arc::default();
    let (whom, noted, time) = (told.clone(), asked_at.clone(), clock.clone());
    let then = move |wrote: Wrote| {
        let mut noted = noted.lock();
        if wrote == what && noted.is_none() {
            *noted = Some(time.now());
            whom.lock().as_ref().expect("a client").pause_for(ASKED);
        }
        std::future::ready(())
    };
    let client = client(of, network, &clock, Then { store: Arc::new(Memory::new()), then });
    *told.lock() = Some(client.clone());
    charge(&client).on_unknown(on_unknown).send().await.expect_err("the second is lost");
    *told.lock() = None;
    let (sent, asked_at) = (sent.lock().clone(), asked_at.lock().expect("it was asked"));
    (asked_at, sent)
}

/// How often Stripe charges, if the answer to the first attempt is lost. From its renewal before the second, the host learns
/// that it has slept for longer than a key is kept.
pub async fn charges_over_a_sleep() -> usize {
    let clock = TestClock::auto();
    let fake = StripeFake::builder().test_clock(&clock).in_process();
    fake.plan().next(Fault::DropAfterApply);
    let (time, slept) = (clock.clone(), AtomicBool::new(false));
    let then = move |wrote: Wrote| {
        if wrote == Wrote::Renewal && !slept.swap(true, Ordering::Relaxed) {
            time.jump_wall(Duration::from_secs(25 * 3600));
        }
        std::future::ready(())
    };
    let client = Client::builder(Stripe::new("sk_test_1").base_url(fake.url()))
        .store(Then { store: Arc::new(Memory::new()), then })
        .transport(fake.transport())
        .clock(clock)
        .build()
        .expect("a client");
    let charge = client.post("/v1/charges").key("k").form(&[("amount", "1000"), ("currency", "usd")]);
    charge.send().await.expect("it is found");
    fake.ledger().count()
}

pub const ASKED: Duration = Duration::from_secs(40);
