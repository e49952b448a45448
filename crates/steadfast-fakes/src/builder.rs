//! The one builder of all fakes: what each can be given. A setting that only one vendor has is set by methods beside
//! that fake.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Deserializer, Error as _};

use steadfast_core::clock::Clock;
use steadfast_testkit::internal::planned;
use steadfast_testkit::{FaultPlan, TestClock};

use super::adyen::AdyenSettings;
use super::bigcommerce::BigCommerceSettings;
use super::postmark::PostmarkSettings;
use super::serve::Setup;
use super::stripe::StripeSettings;

/// Settings of the fake `F`, such as [`StripeFake`](super::StripeFake).
///
/// ```
/// use steadfast::testkit::fakes::{FakeBuilder, PostmarkFake};
/// use steadfast::testkit::{Fault, FaultPlan};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let plan = FaultPlan::new();
/// plan.next(Fault::DropAfterApply);
/// let builder: FakeBuilder<PostmarkFake> = PostmarkFake::builder().plan(plan);
/// let fake = builder.listen(0).await?; // Or a port that another process knows.
/// assert_eq!(fake.plan().pending(), 1);
/// # Ok(())
/// # }
/// ```
///
/// It is also read from data: the table of a [`FaultPlan`], and under `settings` what the methods of one fake set. Each
/// setting has the name of its method. A time is text, such as `"30s"`. A method without a value is `true`. A setting
/// that a method may add several times is a list.
///
/// ```
/// use steadfast::testkit::fakes::{FakeBuilder, PostmarkFake};
///
/// # fn main() -> Result<(), toml::de::Error> {
/// let builder: FakeBuilder<PostmarkFake> = toml::from_str(
///     r#"
///     settings = { search_lag = "30s", second_filter = "refuse" }
///
///     [[fault]]
///     fault = "drop-after-apply"
///     "#,
/// )?;
/// assert_eq!(builder.in_process().plan().pending(), 1);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct FakeBuilder<F> {
    pub(super) setup: Setup,
    pub(super) settings: Settings,
    fake: PhantomData<fn() -> F>,
}

/// The settings that one vendor alone has.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) stripe: StripeSettings,
    pub(super) postmark: PostmarkSettings,
    pub(super) bigcommerce: BigCommerceSettings,
    pub(super) adyen: AdyenSettings,
}

/// Settings that may be written in a file.
pub(super) trait Written: Default + DeserializeOwned {
    /// # Errors
    ///
    /// The settings that do not go together.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// A plan of faults and the settings, from one table.
pub(super) fn written<'de, S: Written, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(FaultPlan, S), D::Error> {
    let (plan, settings) = planned::<S, D>(deserializer)?;
    settings.check().map_err(D::Error::custom)?;
    Ok((plan, settings))
}

impl<F> FakeBuilder<F> {
    pub(super) fn new() -> FakeBuilder<F> {
        FakeBuilder { setup: Setup::default(), settings: Settings::default(), fake: PhantomData }
    }

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

    /// Sets what goes wrong on the way. Default: nothing.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.setup.plan = plan;
        self
    }

    /// Also appends each effect to this file, one JSON object a line, before its answer leaves the fake: for a
    /// judge in another process, with [`Ledger::read`](super::Ledger::read). The file is made if there is none, and is
    /// not synced. A fake that cannot write it panics instead of answering. Default: none.
    pub fn ledger_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.setup.ledger_file = Some(path.into());
        self
    }
}

impl<F> Clone for FakeBuilder<F> {
    fn clone(&self) -> Self {
        FakeBuilder { setup: self.setup.clone(), settings: self.settings.clone(), fake: PhantomData }
    }
}

impl<F> fmt::Debug for FakeBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeBuilder")
            .field("setup", &self.setup)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
