//! The last attempt of a call whose reply is streamed.

use std::mem;

use steadfast_core::clock::Instant;
use steadfast_core::internal::policy::{Admission, Outcome};
use steadfast_core::internal::transport::Chunks;

/// The part of a streaming call's last attempt that is kept aside: the body, what it holds of the gates, and when its head came.
#[derive(Default)]
pub(super) struct Aside<'a> {
    pub(super) body: Option<Chunks>,
    pub(super) held: Option<(Admission<'a>, Instant)>,
}

impl<'a> Aside<'a> {
    /// Keeps what an attempt holds of the gates if its reply is streamed; gives it on to be settled if not.
    pub(super) fn keep(&mut self, admission: Admission<'a>, ended: Instant) -> Option<Admission<'a>> {
        if self.body.is_none() {
            return Some(admission);
        }
        self.held = Some((admission, ended));
        None
    }

    /// Drops a body whose head the adapter does not call done.
    pub(super) fn drop_body(&mut self) {
        if let Some((admission, ended)) = mem::take(self).held {
            admission.settle(Outcome::Success, ended);
        }
    }
}
