//! Fakes of vendors in a process of their own, for tests in any language.
//!
//! They are in the crate's `testkit`, whose mock server and parser a build for operators does not need. So the command
//! is in every build, and only one with the feature `testkit` can carry it out; the others say how to get it.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output::Output;

#[derive(Args, Debug)]
#[group(id = "vendors_to_fake", required = true, multiple = true, args = ["stripe", "postmark", "bigcommerce", "adyen"])]
pub(crate) struct FakesArguments {
    /// A Stripe on this port, such as 12111
    #[arg(long, value_name = "PORT")]
    pub stripe: Option<u16>,
    /// A Postmark on this port, such as 12112
    #[arg(long, value_name = "PORT")]
    pub postmark: Option<u16>,
    /// A BigCommerce on this port, such as 12113
    #[arg(long, value_name = "PORT")]
    pub bigcommerce: Option<u16>,
    /// An Adyen on this port, such as 12114
    #[arg(long, value_name = "PORT")]
    pub adyen: Option<u16>,
    /// A TOML file with the faults and settings of each fake; without it nothing goes wrong
    ///
    /// Each vendor has a table. [stripe] is its plan of faults, and [stripe.settings] has the settings of the
    /// builder of StripeFake, under the names of its methods: busy_for = "2s". The recipe "Test in another
    /// language" lists them.
    #[arg(long, value_name = "PATH")]
    pub plan: Option<PathBuf>,
}

#[cfg(not(feature = "testkit"))]
pub(crate) async fn fakes(_: FakesArguments, _: &mut Output<'_>) -> Result<u8, Failure> {
    let problem = "this program was built without fakes; cargo install steadfast-cli --features testkit";
    Err(Failure::Arguments(problem.to_owned()))
}

#[cfg(feature = "testkit")]
pub(crate) use with_testkit::fakes;

#[cfg(feature = "testkit")]
mod with_testkit {
    use std::fs;
    use std::path::Path;

    use serde::Deserialize;
    use serde_json::{Map, Value, json};
    use steadfast::testkit::fakes::{AdyenFake, BigCommerceFake, FakeBuilder, PostmarkFake, StripeFake};

    use super::{Failure, FakesArguments, Output};
    use crate::failure::DONE;
    use crate::signals::Signals;

    /// The faults and the settings of each vendor.
    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Plans {
        stripe: FakeBuilder<StripeFake>,
        postmark: FakeBuilder<PostmarkFake>,
        bigcommerce: FakeBuilder<BigCommerceFake>,
        adyen: FakeBuilder<AdyenFake>,
    }

    impl Default for Plans {
        fn default() -> Plans {
            Plans {
                stripe: StripeFake::builder(),
                postmark: PostmarkFake::builder(),
                bigcommerce: BigCommerceFake::builder(),
                adyen: AdyenFake::builder(),
            }
        }
    }

    /// The fakes, which end when this is dropped.
    #[derive(Default)]
    struct Running {
        stripe: Option<StripeFake>,
        postmark: Option<PostmarkFake>,
        bigcommerce: Option<BigCommerceFake>,
        adyen: Option<AdyenFake>,
    }

    /// Serves until a signal asks to stop.
    pub(crate) async fn fakes(arguments: FakesArguments, output: &mut Output<'_>) -> Result<u8, Failure> {
        let plans = arguments.plan.as_deref().map_or_else(|| Ok(Plans::default()), read)?;
        // Before the addresses are printed: a reader may send the signal at once.
        let mut signals = Signals::new()?;
        let port_taken = |vendor, port| move |error| Failure::FakePort(vendor, port, error);
        let mut urls = Map::new();
        let mut running = Running::default();
        if let Some(port) = arguments.stripe {
            let fake = plans.stripe.listen(port).await;
            let fake = running.stripe.insert(fake.map_err(port_taken("stripe", port))?);
            urls.insert("stripe".to_owned(), Value::from(fake.url()));
        }
        if let Some(port) = arguments.postmark {
            let fake = plans.postmark.listen(port).await;
            let fake = running.postmark.insert(fake.map_err(port_taken("postmark", port))?);
            urls.insert("postmark".to_owned(), Value::from(fake.url()));
        }
        if let Some(port) = arguments.bigcommerce {
            let fake = plans.bigcommerce.listen(port).await;
            let fake = running.bigcommerce.insert(fake.map_err(port_taken("bigcommerce", port))?);
            urls.insert("bigcommerce".to_owned(), Value::from(fake.url()));
        }
        if let Some(port) = arguments.adyen {
            let fake = plans.adyen.listen(port).await;
            let fake = running.adyen.insert(fake.map_err(port_taken("adyen", port))?);
            urls.insert("adyen".to_owned(), Value::from(fake.url()));
        }
        let code = output.put(DONE, &json!({ "urls": urls }), |_, out| {
            for (vendor, url) in &urls {
                writeln!(out, "{vendor} {}", url.as_str().unwrap_or_default())?;
            }
            Ok(())
        })?;
        // The parent process waits for the addresses.
        output.out.flush()?;
        signals.next().await;
        drop(running);
        Ok(code)
    }

    fn read(path: &Path) -> Result<Plans, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::Input(path.to_owned(), error))?;
        toml::from_str(&text).map_err(|error| Failure::FaultPlan(path.to_owned(), error))
    }
}
