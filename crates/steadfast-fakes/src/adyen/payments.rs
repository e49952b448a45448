//! Payments, and what is left of their money.

use serde_json::{Value, json};

use steadfast_core::clock::Timestamp;

use super::super::table::{Row, Table, Term};
use super::bodies::Amount;
use super::captures::Captures;
use super::results::{Failing, Outcome};

/// One payment.
#[derive(Clone, Debug)]
pub(super) struct Payment {
    pub(super) psp: String,
    pub(super) merchant: String,
    pub(super) reference: String,
    pub(super) method: &'static str,
    pub(super) currency: String,
    pub(super) state: State,
    pub(super) authorised: i64,
    pub(super) captured: i64,
    pub(super) refunded: i64,
    /// The rest that a partial capture left was cancelled.
    pub(super) is_closed: bool,
    /// When it is captured by itself; `None` if only a request captures it, or if that was tried.
    pub(super) captures_at: Option<Timestamp>,
    /// Which of its changes the card scheme does not carry out.
    pub(super) failing: Option<Failing>,
    /// The session or the payment link on whose page it was made.
    pub(super) checkout: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The shopper is elsewhere.
    Awaits,
    /// Neither authorised nor refused.
    Open,
    Authorised,
    Refused,
    Cancelled,
}

/// The outcome of a change: nothing if it succeeds, else why not.
pub(super) type Told = Result<(), &'static str>;

impl Row for Payment {
    fn terms(&self) -> Vec<Term> {
        vec![Term::new("psp", &self.psp), Term::new("reference", &self.reference)]
    }
}

impl Payment {
    pub(super) fn new(
        psp: &str,
        body: &Value,
        amount: &Amount,
        method: &'static str,
        captures: Captures,
        now: Timestamp,
    ) -> Payment {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Payment {
            psp: psp.to_owned(),
            merchant: text("merchantAccount"),
            reference: text("reference"),
            method,
            currency: amount.currency.clone(),
            state: State::Awaits,
            authorised: amount.value,
            captured: 0,
            refunded: 0,
            is_closed: false,
            captures_at: match captures {
                Captures::After(delay) => Some(now.plus(delay)),
                Captures::ByRequest => None,
            },
            failing: Failing::of(body),
            checkout: None,
        }
    }

    pub(super) fn settle(&mut self, outcome: Outcome) {
        self.state = match outcome.code {
            "Authorised" => State::Authorised,
            "Received" | "Pending" => State::Open,
            "Cancelled" => State::Cancelled,
            _ => State::Refused,
        };
    }

    /// Captures it once the time for that has come. Gives the error if the card scheme does not carry that out.
    ///
    /// A payment of which a request captured a part is left to requests: what Adyen does with the rest is not
    /// documented.
    pub(super) fn pass_time(&mut self, now: Timestamp) -> Told {
        let is_due = self.captures_at.is_some_and(|at| at <= now);
        if !is_due || self.state != State::Authorised || self.captured > 0 {
            return Ok(());
        }
        self.captures_at = None;
        if self.failing == Some(Failing::Capture) {
            return Err(CAPTURE_FAILED);
        }
        self.captured = self.authorised;
        self.is_closed = true;
        Ok(())
    }

    pub(super) fn capture(&mut self, amount: &Amount, in_parts: bool) -> Told {
        let left = if self.is_closed { 0 } else { self.authorised - self.captured };
        if self.state != State::Authorised || amount.value > left || amount.value == 0 {
            return Err(NO_BALANCE);
        }
        self.captured += amount.value;
        self.is_closed = !in_parts;
        Ok(())
    }

    /// Takes a capture back that the card scheme did not carry out.
    pub(super) fn capture_failed(&mut self, amount: &Amount) {
        self.captured -= amount.value;
        self.is_closed = false;
    }

    /// Takes a refund back that the card scheme did not carry out.
    pub(super) fn refund_failed(&mut self, amount: &Amount) {
        self.refunded -= amount.value;
    }

    pub(super) fn cancel(&mut self) -> Told {
        if self.state != State::Authorised || self.captured > 0 {
            return Err(NO_BALANCE);
        }
        self.state = State::Cancelled;
        Ok(())
    }

    pub(super) fn refund(&mut self, amount: &Amount) -> Told {
        if self.captured == 0 {
            return Err(NOT_CAPTURED);
        }
        if amount.value > self.captured - self.refunded || amount.value == 0 {
            return Err(NO_BALANCE);
        }
        self.refunded += amount.value;
        Ok(())
    }

    /// Always the whole payment. Gives which of the two it was.
    ///
    /// A reversal is not for a payment with several partial captures (`/reversals` of CheckoutService-v71). While a part
    /// of one is not captured, it fails here. After a single partial capture it returns that part: what Adyen returns is
    /// not documented.
    pub(super) fn reverse(&mut self) -> (&'static str, Told) {
        if self.captured == 0 {
            return ("cancel", self.cancel());
        }
        let is_in_parts = self.captured < self.authorised && !self.is_closed;
        if self.refunded > 0 || is_in_parts {
            return ("refund", Err(NO_BALANCE));
        }
        self.refunded = self.captured;
        self.is_closed = true;
        ("refund", Ok(()))
    }

    /// The new amount in place of the authorised one.
    pub(super) fn adjust(&mut self, amount: &Amount) -> Told {
        if self.state != State::Authorised || self.captured > 0 {
            return Err(NO_BALANCE);
        }
        self.authorised = amount.value;
        Ok(())
    }

    pub(super) fn amount(&self) -> Value {
        json!({ "currency": self.currency, "value": self.authorised })
    }
}

impl Table<Payment> {
    pub(super) fn by_psp(&self, merchant: Option<&str>, psp: &str) -> Option<(u64, Payment)> {
        let is_it =
            |one: &Payment| one.psp == psp && merchant.is_none_or(|merchant| one.merchant == merchant);
        let mut found = self.with(&[Term::new("psp", psp)]).filter(|(_, one)| is_it(one));
        found.next().map(|(ordinal, one)| (ordinal, one.clone()))
    }

    /// The newest with this reference: Adyen does not ask for one of a kind.
    pub(super) fn by_reference(&self, merchant: &str, reference: &str) -> Option<(u64, Payment)> {
        let is_it = |one: &Payment| one.reference == reference && one.merchant == merchant;
        let mut found = self.with(&[Term::new("reference", reference)]).filter(|(_, one)| is_it(one));
        found.next_back().map(|(ordinal, one)| (ordinal, one.clone()))
    }
}

/// Reasons of real notifications of captures and refunds (the rules in `fixtures/adyen.json`). For other
/// changes the first one is composed.
const NO_BALANCE: &str = "Insufficient balance on payment";
const NOT_CAPTURED: &str = "Transaction hasn't been captured, refund not possible";

/// The reason of the example in Webhooks-v1 (github.com/Adyen/adyen-openapi).
pub(super) const CAPTURE_FAILED: &str = "Capture Failed";
