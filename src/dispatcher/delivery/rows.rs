//! The rows of the store's outbox, for all of a dispatcher's clients.

use steadfast_core::internal::ext::ErrorExt;

use super::{Delivery, Turn, shortest};
use crate::dispatcher::{answered, asked};
use crate::telemetry;

impl Delivery {
    /// Asks the store for which clients rows of its outbox wait: one question for all.
    pub(super) async fn look_into_outbox(&mut self) {
        let Some(outbox) = self.engine.outbox() else { return };
        let accounts: Vec<_> = self.members.iter().map(|turn| turn.member.client.engine.account()).collect();
        let vendor = self.engine.vendor.name();
        let question = async { outbox.have_rows(&accounts).await };
        let found = match asked(&*self.clock, LOOK_INTO_OUTBOX, question).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                self.pulse.asked(Some(&error));
                telemetry::recovery_failed(vendor, &error.at_vendor(vendor));
                return;
            }
            Err(panic) => return telemetry::recovery_panicked(vendor, LOOK_INTO_OUTBOX, &*panic),
        };
        self.saw_rows(found);
    }

    /// Whose rows wait, in the order of the clients.
    pub(super) fn saw_rows(&mut self, found: Vec<bool>) {
        for (turn, has_rows) in self.members.iter_mut().zip(found) {
            turn.has_rows |= has_rows;
        }
    }

    /// Takes rows of the outbox on record, a page for each client that has some. Whether any client had.
    pub(super) async fn admit_in_turn(&mut self) -> bool {
        let (mut had_rows, mut progressed) = (false, false);
        for turn in self.members.iter_mut().filter(|turn| turn.may_admit()) {
            had_rows = true;
            let client = &turn.member.client;
            turn.has_rows = match answered(&*self.clock, ADMIT, turn.admission.round(&client.engine)).await {
                Ok(Ok(are_more)) => {
                    progressed |= turn.admission.progressed;
                    are_more
                }
                Ok(Err(error)) => {
                    self.pulse.asked(Some(&error));
                    telemetry::recovery_failed(client.vendor(), &error);
                    false
                }
                Err(panic) => {
                    telemetry::recovery_panicked(client.vendor(), ADMIT, &*panic);
                    false
                }
            };
        }
        if progressed {
            // Where some were there are soon others, which nobody tells of while the first are here.
            self.look_soon(shortest(self.period));
        }
        had_rows
    }
}

impl Turn {
    /// Whether rows wait for it that it may admit.
    pub(super) fn may_admit(&self) -> bool {
        self.has_rows && self.agrees()
    }
}

const LOOK_INTO_OUTBOX: &str = "look into the outbox";
const ADMIT: &str = "admit rows of the outbox";
