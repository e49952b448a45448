//! The machine under every fake. A vendor adds what it holds, what it does with a request, and its words for a failure.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use wiremock::Request;

use steadfast_core::clock::{Clock, Timestamp};
use steadfast_testkit::{Fault, WaitForm};

use super::fixture::{Fixtures, Reply};
use super::ledger::{Effect, Ledger};
use super::serve::{Behaviour, Setup, fault_of};
use super::webhooks::Outbox;

/// The state that a vendor holds.
pub(super) trait Vendor: Sized + fmt::Debug + Send + 'static {
    type Settings: Clone + fmt::Debug + Send + Sync + 'static;
    /// Answers that a test asks for one at a time.
    type Answer: fmt::Debug + Send;

    /// Whether it keeps answers under keys. At one that does not, a fault about a key is no fault, and a stored 500 is a
    /// plain one.
    const HAS_KEYS: bool;

    /// The state that it holds from the beginning.
    fn opened(settings: &Self::Settings, now: Timestamp) -> Self;

    fn answer(machine: &Machine<Self>, state: &mut Self, request: &Request) -> Reply;

    /// Its words for a request that fails before it can execute.
    fn failure(machine: &Machine<Self>, failure: Failure) -> Reply;

    /// Does what a shopper does in a browser, which a test asks for; `None` at a vendor that has no shoppers.
    fn shopper(_machine: &Machine<Self>, _body: &[u8]) -> Option<Reply> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    Server,
    /// A page of the gateway's in front of the API.
    Gateway,
    /// A 429, with the vendor's own word of how long to wait if it is to have one.
    RateLimit(Option<Duration>),
}

#[derive(Debug)]
pub(super) struct Machine<V: Vendor> {
    pub(super) fixtures: &'static Fixtures,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ledger: Ledger,
    pub(super) outbox: Outbox,
    pub(super) settings: V::Settings,
    pub(super) state: Mutex<V>,
    scripted: Mutex<VecDeque<V::Answer>>,
}

impl<V: Vendor> Machine<V> {
    /// # Panics
    ///
    /// If the ledger's file cannot be opened.
    pub(super) fn open(
        fixtures: &'static Fixtures,
        setup: &Setup,
        settings: &V::Settings,
    ) -> Arc<Machine<V>> {
        Arc::new(Machine {
            fixtures,
            clock: setup.clock.clone(),
            ledger: Ledger::kept_in(setup.ledger_file.as_deref()).expect("the ledger's file can be opened"),
            outbox: Outbox::new(setup.clock.clone()),
            settings: settings.clone(),
            state: Mutex::new(V::opened(settings, setup.clock.wall())),
            scripted: Mutex::default(),
        })
    }

    pub(super) fn script(&self, answer: V::Answer) {
        self.scripted.lock().push_back(answer);
    }

    /// The answer that a test asked for instead of the next.
    pub(super) fn scripted(&self) -> Option<V::Answer> {
        self.scripted.lock().pop_front()
    }

    /// The answer that a fault makes of this request before it can execute.
    pub(super) fn refused(&self, request: &Request) -> Option<Reply> {
        let form = match fault_of(&request.headers)? {
            Fault::Error500Before => return Some(V::failure(self, Failure::Server)),
            Fault::Stored500 if !V::HAS_KEYS => return Some(V::failure(self, Failure::Server)),
            Fault::Html => return Some(V::failure(self, Failure::Gateway)),
            Fault::TooManyRequests(form) => form,
            _ => return None,
        };
        let limited = |wait| V::failure(self, Failure::RateLimit(wait));
        Some(match form {
            WaitForm::Seconds(seconds) => limited(None).header("Retry-After", seconds.to_string()),
            WaitForm::HttpDate(wait) => limited(None).header("Retry-After", date(&*self.clock, wait)),
            WaitForm::VendorForm(wait) => limited(Some(wait)),
            _ => limited(None),
        })
    }

    /// Notes what took effect now: at which account, under which key, by which method of which path, and as which part of
    /// a batch.
    pub(super) fn effect(
        &self,
        account: &str,
        key: Option<&str>,
        (method, path): (&str, &str),
        id: &str,
        part: usize,
    ) {
        self.ledger.record(Effect {
            wire_key: key.map(str::to_owned),
            account: account.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            id: id.to_owned(),
            part,
            at: self.clock.wall(),
        });
    }
}

impl<V: Vendor> Behaviour for Machine<V> {
    fn answer(&self, request: &Request) -> Reply {
        V::answer(self, &mut self.state.lock(), request)
    }

    fn shopper(&self, body: &[u8]) -> Option<Reply> {
        V::shopper(self, body)
    }
}

/// An HTTP date this long after the clock's present, rounded up to a whole second.
fn date(clock: &dyn Clock, wait: Duration) -> String {
    let seconds = clock.wall().plus(wait).as_millis().div_ceil(1000);
    Timestamp::from_millis(seconds.saturating_mul(1000)).to_string()
}
