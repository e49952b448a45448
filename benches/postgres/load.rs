//! The code that several parts share: clients whose transport keeps a ledger, and calls that are enqueued at a steady
//! rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use steadfast::BoxFuture;
use steadfast::policy::RecoveryConfig;
use steadfast::store::Postgres;
use steadfast::transport::{Answer, Limits, Request, SendError, Transport};
use steadfast::{Client, Policy};

use crate::bench::{BASE, Nowhere, PATH, Plain};
use crate::{BODY, bench};

/// When each call was accepted and first sent, by its number, in microseconds since the ledger began.
#[derive(Debug)]
pub struct Ledger {
    began: Instant,
    accepted: Box<[AtomicU64]>,
    sent: Box<[AtomicU64]>,
    /// Of the key that the vendor was given with the first send.
    keys: Box<[AtomicU64]>,
    again: AtomicU64,
    doubled: AtomicU64,
}

impl Ledger {
    pub fn new(calls: usize) -> Arc<Ledger> {
        let column = || (0..calls).map(|_| AtomicU64::new(0)).collect();
        let (again, doubled) = (AtomicU64::new(0), AtomicU64::new(0));
        let began = Instant::now();
        Arc::new(Ledger { began, accepted: column(), sent: column(), keys: column(), again, doubled })
    }

    pub fn now(&self) -> u64 {
        self.began.elapsed().as_micros().max(1) as u64
    }

    pub fn accept(&self, number: usize) {
        self.accepted[number].store(self.now(), Ordering::Relaxed);
    }

    fn send(&self, request: &Request) {
        let number = std::str::from_utf8(&request.body[..DIGITS]).ok().and_then(|digits| digits.parse().ok());
        let number: usize = number.expect("a number of ours");
        let key = request.headers.get("idempotency-key").map_or(&[][..], |key| key.as_bytes());
        let key = key.iter().fold(1_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()));
        match self.keys[number].swap(key, Ordering::Relaxed) {
            0 => self.sent[number].store(self.now(), Ordering::Relaxed),
            // The vendor replays what it did.
            same if same == key => drop(self.again.fetch_add(1, Ordering::Relaxed)),
            _ => drop(self.doubled.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// How many were sent for the first time in this stretch of time.
    pub fn sent_between(&self, from: u64, to: u64) -> usize {
        self.sent.iter().filter(|at| (from..to).contains(&at.load(Ordering::Relaxed))).count()
    }

    /// How long after they were accepted those were sent that were accepted in this stretch, in order.
    pub fn waits(&self, from: u64, to: u64) -> Vec<u64> {
        let both = self.accepted.iter().zip(&self.sent);
        let times = both.map(|(at, sent)| (at.load(Ordering::Relaxed), sent.load(Ordering::Relaxed)));
        let of_then = times.filter(|(at, sent)| (from..to).contains(at) && *sent > 0);
        let mut waits: Vec<u64> = of_then.map(|(at, sent)| sent.saturating_sub(at)).collect();
        waits.sort_unstable();
        waits
    }

    /// How many were accepted and never sent; how many a vendor that knows keys would have done twice; how many it was
    /// asked for again.
    pub fn lost_doubled_again(&self) -> (usize, u64, u64) {
        let both = self.accepted.iter().zip(&self.sent);
        let is_lost = |at: &AtomicU64, sent: &AtomicU64| {
            at.load(Ordering::Relaxed) > 0 && sent.load(Ordering::Relaxed) == 0
        };
        let lost = both.filter(|(at, sent)| is_lost(at, sent)).count();
        (lost, self.doubled.load(Ordering::Relaxed), self.again.load(Ordering::Relaxed))
    }
}

pub fn at(sorted: &[u64], percent: usize) -> Duration {
    let nth = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    Duration::from_micros(sorted.get(nth).copied().unwrap_or_default())
}

/// A client whose calls the ledger sees.
pub fn client(store: &Arc<Postgres>, at_once: usize, ledger: &Arc<Ledger>) -> Client {
    client_by(store, at_once, Noted(Arc::clone(ledger)))
}

pub fn client_by(store: &Arc<Postgres>, at_once: usize, transport: impl Transport) -> Client {
    // As fast as it may be, and without a rate limit: what is measured is not how a vendor is spared.
    let recovery = RecoveryConfig::new(PER_SECOND, PER_SECOND).at_once(at_once as u32);
    let client = Client::builder(Plain::at(BASE)).policy(Policy::background().recovery(recovery));
    client.store(Arc::clone(store)).transport(transport).build().expect("a client")
}

/// Enqueues a call of 1 KiB, again and again until it is accepted. The second time is the same call.
pub async fn enqueue(client: &Client, number: usize, name: &str) {
    let body = format!("{number:0DIGITS$}{}", &BODY[DIGITS..]);
    loop {
        let call = client.post(PATH).key(format!("{name}/{number}")).bytes(body.clone());
        if call.enqueue().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Enqueues `calls` at a steady rate, whether or not the last was accepted yet. A task of its own.
pub fn steadily(
    client: &Client,
    ledger: &Arc<Ledger>,
    calls: usize,
    name: &'static str,
) -> tokio::task::JoinHandle<()> {
    let (client, ledger) = (client.clone(), Arc::clone(ledger));
    tokio::spawn(async move {
        let began = tokio::time::Instant::now();
        let mut under_way = tokio::task::JoinSet::new();
        for number in 0..calls {
            tokio::time::sleep_until(began + Duration::from_secs(1) * number as u32 / RATE as u32).await;
            let (client, ledger) = (client.clone(), Arc::clone(&ledger));
            under_way.spawn(async move {
                enqueue(&client, number, name).await;
                ledger.accept(number);
            });
        }
        under_way.join_all().await;
    })
}

/// Waits until all that was accepted was sent, or until it has taken too long.
pub async fn until_all_are_sent(ledger: &Ledger) {
    let began = Instant::now();
    while ledger.lost_doubled_again().0 > 0 && began.elapsed() < Duration::from_secs(90) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Seconds for a part, shorter where the run only has to show that it works.
pub fn seconds(name: &str, usual: u64) -> u64 {
    let said = std::env::var(name).ok().and_then(|text| text.parse().ok());
    said.unwrap_or(if bench::is_quick() { usual.div_ceil(10) } else { usual })
}

#[derive(Debug)]
struct Noted(Arc<Ledger>);

impl Transport for Noted {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        self.0.send(&request);
        Nowhere.send(request, limits)
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

/// Enqueued a second.
pub const RATE: usize = 800;

/// A number stands before the rest of the body.
const DIGITS: usize = 10;

/// The most that a policy may say.
const PER_SECOND: u32 = 10_000;
