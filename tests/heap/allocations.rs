//! The memory that the policy layer takes from the heap: counted, not estimated.

#[path = "../../benches/support/mod.rs"]
mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{HeaderValue, Method, header};
use steadfast::Client;
use steadfast::clock::{Clock, SystemClock};
use steadfast::store::Memory;
use steadfast::transport::{Limits, Request, Transport};
use steadfast_core::internal::policy::{Gates, Outcome};
use steadfast_core::internal::random::SystemRandom;
use url::Url;

use crate::COUNT;

use support::{BASE, CHARGE, Nowhere, PATH, Plain, REPLY, SECRET, all_gates, bare_get};

/// Allocations while `work` runs.
fn allocations<T>(work: impl FnOnce() -> T) -> u64 {
    let before = COUNT.get().0;
    let output = work();
    let after = COUNT.get().0;
    drop(output);
    after - before
}

/// Bytes that are live after `work` and were not before.
fn kept<T>(work: impl FnOnce() -> T) -> (i64, T) {
    let before = COUNT.get().1;
    let output = work();
    (COUNT.get().1 - before, output)
}

/// The output of a future that never has to wait.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

fn client() -> Client {
    Client::builder(Plain::at(BASE))
        .policy(all_gates())
        .store(Memory::new())
        .transport(Nowhere)
        .build()
        .expect("a client")
}

fn call(client: &Client) {
    assert!(ready(client.get(PATH).send()).expect("a reply").status().is_success());
}

#[test]
fn the_counter_counts_what_is_allocated_and_what_stays() {
    assert_eq!(allocations(|| std::hint::black_box(Box::new(1_u64))), 1);
    assert_eq!(allocations(|| 1_u64), 0);
    assert_eq!(kept(|| std::hint::black_box(vec![0_u8; 100])).0, 100);
    assert_eq!(kept(|| drop(vec![0_u8; 100])).0, 0);
}

#[test]
fn a_call_adds_at_most_two_allocations_to_the_same_exchange_without_policy() {
    let client = client();
    call(&client);
    let ours = allocations(|| ready(client.get(PATH).send()).expect("a reply"));

    // The same request through the same transport. Its URL is parsed beforehand, so that parsing, which
    // allocates more than once, hides nothing.
    let url = Url::parse("http://127.0.0.1:1/v1/things").expect("a URL");
    let bare = allocations(|| {
        let mut request = Request::new(Method::GET, url.clone());
        request.headers.insert(header::AUTHORIZATION, HeaderValue::from_static(SECRET));
        ready(Nowhere.send(request, Limits::new(1024))).expect("an answer")
    });
    // One is the path, which is appended to a copy of the base URL.
    assert!(ours <= bare + 2, "{ours} allocations, {bare} without policy");
}

#[test]
fn a_call_allocates_no_more_than_bare_reqwest() {
    let client = client();
    let reqwest = reqwest::Client::builder().build().expect("a client");
    call(&client);
    let ours = allocations(|| ready(client.get(PATH).send()).expect("a reply"));
    let bare = allocations(|| ready(bare_get(&reqwest)));
    assert!(ours <= bare, "{ours} allocations, {bare} on bare reqwest");
}

/// It holds the state of the whole call, with a key or without, and moves into whatever future awaits it.
#[test]
fn the_future_of_a_call_is_at_most_4_kib() {
    let client = client();
    let future = client.post(PATH).json(&CHARGE).send();
    let size = size_of_val(&future);
    assert!(size <= 4 * 1024, "{size} bytes");
}

/// A POST with a key, and with the body of the benchmarks.
fn keyed(client: &Client, key: u32) {
    let post = client.post(PATH).key(format!("order-{key:06}/charge")).json(&CHARGE);
    assert!(ready(post.send()).expect("a reply").status().is_success());
}

#[test]
fn a_key_adds_at_most_33_allocations_to_a_call() {
    let client = client();
    keyed(&client, 0);
    let put = || ready(client.put(PATH).json(&CHARGE).send()).expect("a reply");
    put();
    let (unkeyed, keyed) = (allocations(put), allocations(|| keyed(&client, 1)));
    assert!(keyed <= unkeyed + 33, "{keyed} allocations, {unkeyed} without a key");
}

#[test]
fn a_settled_record_in_memory_keeps_at_most_1500_bytes_beside_its_bodies() {
    let client = client();
    keyed(&client, 0);
    let (grown, ()) = kept(|| (1..=1_000).for_each(|key| keyed(&client, key)));
    let bodies = REPLY.len() + serde_json::to_vec(&CHARGE).expect("JSON").len();
    let each = grown / 1_000 - bodies as i64;
    assert!(each <= 1_500, "{each} bytes");
}

#[test]
fn the_gates_allocate_nothing() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let gates = Gates::new(&all_gates(), Arc::clone(&clock), Arc::new(SystemRandom));
    let added = allocations(|| {
        for _ in 0..1_000 {
            let now = clock.now();
            let admission = gates.admit(now).expect("limits that nothing reaches");
            gates.budget().expect("a budget").earn(now);
            admission.settle(Outcome::Success, clock.now());
        }
    });
    assert_eq!(added, 0);
}

#[test]
fn a_client_stays_under_16_kib_however_many_calls_it_makes() {
    // Store and transport are the user's to choose and hold nothing here: an empty `Memory`, a unit struct.
    let (at_first, client) = kept(client);
    assert!(at_first < 16 * 1024, "{at_first} bytes");
    call(&client);
    let (grown, ()) = kept(|| (0..100_000).for_each(|_| call(&client)));
    assert_eq!(grown, 0, "bytes kept by 100,000 calls");
}
