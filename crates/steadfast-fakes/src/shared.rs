//! The methods that every fake and its builder have, and its fixtures, written once.
//!
//! A macro and not a generic type: what a test holds is a `StripeFake`, with all its methods on one page.

/// For a fake with the fields `served` and `machine`, with its type of machine as `Machine`.
macro_rules! shared_by_fakes {
    ($fake:ident, $answer:ident, $vendor:ident, $held:ident) => {
        /// Read once: a test may make thousands of fakes.
        static FIXTURES: std::sync::LazyLock<crate::fixture::Fixtures> = std::sync::LazyLock::new(|| {
            crate::fixture::Fixtures::parse(include_str!(concat!(
                "../fixtures/",
                stringify!($vendor),
                ".json"
            )))
        });

        impl $fake {
            /// One with settings of its own.
            pub fn builder() -> FakeBuilder<$fake> {
                FakeBuilder::new()
            }

            /// Starts one on the system's clock, with nothing going wrong and without any lag or limit.
            ///
            /// # Panics
            ///
            /// If the loopback interface has no free port.
            pub async fn start() -> $fake {
                $fake::builder().start().await
            }

            /// Reaches it without a socket, under the same plan and with the same ledger.
            pub fn transport(&self) -> crate::InProcess {
                self.served.transport()
            }

            /// The plan of what goes wrong on the way.
            pub fn plan(&self) -> &steadfast_testkit::FaultPlan {
                self.served.plan()
            }

            /// The ledger of what took effect.
            pub fn ledger(&self) -> crate::Ledger {
                self.machine.ledger.clone()
            }

            /// Answers the next authorised write with this instead. Several queue up.
            pub fn answer_next(&self, answer: $answer) -> &$fake {
                self.machine.script(answer);
                self
            }

            /// How many of the things that it holds requests were shown since this was last asked.
            #[cfg(test)]
            pub(super) fn take_shown(&self) -> u64 {
                self.machine.state.lock().$held.take_shown()
            }
        }

        impl<'de> serde::Deserialize<'de> for FakeBuilder<$fake> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let (plan, settings) = crate::builder::written(deserializer)?;
                let mut builder = FakeBuilder::new().plan(plan);
                builder.settings.$vendor = settings;
                Ok(builder)
            }
        }

        impl FakeBuilder<$fake> {
            /// Starts it on a free port of 127.0.0.1.
            ///
            /// # Panics
            ///
            /// If the loopback interface has no free port, or the ledger's file cannot be opened.
            pub async fn start(self) -> $fake {
                self.listen(0).await.expect("loopback has a free port")
            }

            /// Starts it on this port of 127.0.0.1, so that another process knows where it is; 0 is a free port.
            ///
            /// # Errors
            ///
            /// The system's: most often, another process listens there.
            ///
            /// # Panics
            ///
            /// If the ledger's file cannot be opened.
            pub async fn listen(self, port: u16) -> std::io::Result<$fake> {
                let machine = self.machine();
                let (ledger, outbox) = (machine.ledger.clone(), machine.outbox.clone());
                let page =
                    crate::page::ControlPage::new(stringify!($vendor), &self.setup.plan, ledger, outbox);
                let page = std::sync::Arc::new(page.with_shoppers(machine.clone()));
                let served = Served::start(machine.clone(), self.setup, page, port).await?;
                Ok($fake { served, machine })
            }

            /// Makes it without any socket: it is reached by its `transport()` alone. With a
            /// [`test_clock`](Self::test_clock) everything that it does is on virtual time.
            ///
            /// # Panics
            ///
            /// If the ledger's file cannot be opened.
            pub fn in_process(self) -> $fake {
                let machine = self.machine();
                let served = Served::in_process(machine.clone(), self.setup, stringify!($vendor));
                $fake { served, machine }
            }

            fn machine(&self) -> std::sync::Arc<Machine> {
                Machine::open(&FIXTURES, &self.setup, &self.settings.$vendor)
            }
        }
    };
}

pub(super) use shared_by_fakes;
