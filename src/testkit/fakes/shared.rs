//! The methods that every fake and its builder have, written once.
//!
//! A macro and not a generic type: what a test holds is a `StripeFake`, with all its methods on one page.

/// For a fake with the fields `served` and `machine`, and its builder with a `setup` and a method `machine`.
macro_rules! shared_by_fakes {
    ($fake:ident, $builder:ident, $answer:ident, $name:literal, $held:ident) => {
        impl $fake {
            /// Starts one on the system's clock, with nothing going wrong and without any lag or limit.
            ///
            /// # Panics
            ///
            /// If the loopback interface has no free port.
            pub async fn start() -> $fake {
                $fake::builder().start().await
            }

            /// Reaches it without a socket, under the same plan and with the same ledger.
            pub fn transport(&self) -> InProcess {
                self.served.transport()
            }

            /// What goes wrong on the way.
            pub fn plan(&self) -> &FaultPlan {
                self.served.plan()
            }

            /// What took effect.
            pub fn ledger(&self) -> Ledger {
                self.machine.ledger.clone()
            }

            /// Answers the next authorised write with this instead. Several queue up.
            pub fn answer_next(&self, answer: $answer) -> &$fake {
                self.machine.state.lock().scripted.push_back(answer);
                self
            }

            /// How many of the things that it holds requests were shown since this was last asked.
            #[cfg(test)]
            pub(super) fn take_shown(&self) -> u64 {
                self.machine.state.lock().$held.take_shown()
            }
        }

        impl $builder {
            /// The clock by which things are dated, show in lookups and expire. Default: the system's.
            pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
                self.setup.clock = clock;
                self
            }

            /// As [`clock`](Self::clock), and lets slow bodies and hanging answers take that clock's time too.
            pub fn test_clock(mut self, clock: &TestClock) -> Self {
                self.setup.clock = Arc::new(clock.clone());
                self.setup.pace = Some(clock.clone());
                self
            }

            /// What goes wrong on the way. Default: nothing.
            pub fn plan(mut self, plan: FaultPlan) -> Self {
                self.setup.plan = plan;
                self
            }

            /// Also appends each effect to this file, one JSON object a line, before its answer leaves the fake: for a
            /// judge in another process, with [`Ledger::read`]. The file is made if there is none, and is not synced.
            /// A fake that cannot write it panics instead of answering. Default: none.
            pub fn ledger_file(mut self, path: impl Into<PathBuf>) -> Self {
                self.setup.ledger_file = Some(path.into());
                self
            }

            /// Starts it.
            ///
            /// # Panics
            ///
            /// If the loopback interface has no free port, or the ledger's file cannot be opened.
            pub async fn start(self) -> $fake {
                let machine = self.machine();
                let served = Served::start(machine.clone(), self.setup).await;
                $fake { served, machine }
            }

            /// Makes it without any socket: it is reached by its `transport()` alone. With a
            /// [`test_clock`](Self::test_clock) everything that it does is on virtual time.
            ///
            /// # Panics
            ///
            /// If the ledger's file cannot be opened.
            pub fn in_process(self) -> $fake {
                let machine = self.machine();
                let served = Served::in_process(machine.clone(), self.setup, $name);
                $fake { served, machine }
            }
        }
    };
}

pub(super) use shared_by_fakes;
