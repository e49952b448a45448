//! The process that is killed: the service, which takes orders and enqueues every call in an SQLite file. Both
//! ends are here, what runs in the process and the handle by which the example kills it and starts it again.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast::Policy;
use steadfast::policy::{Backoff, RecoveryConfig, Timeouts};
use steadfast::store::Sqlite;
use steadfast::vendor::{BigCommerce, Postmark, Stripe};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::shop::Shop;
use crate::vendors::{ORDERS, VENDORS};
use crate::{LOOK_EVERY, Problem};

/// The hidden first argument that makes the program a worker.
pub const WORKER: &str = "--worker";

/// How many orders are under way at once.
const AT_ONCE: usize = 16;

/// How long after a lost answer a lookup is believed: twice what the fakes take to show a new effect. The
/// adapters' defaults are 10 to 80 s, because what a real vendor takes is not known.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// How much longer than its attempt an operation is held. A real service keeps the default of 30 s; here it
/// is what one waits for after the kill.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
const DISPATCH_PERIOD: Duration = Duration::from_millis(200);

/// How long what is under way may take at the end.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The settings that a worker is told.
pub struct Service {
    pub file: PathBuf,
    /// The vendors', in the order of [`VENDORS`].
    pub urls: [String; 3],
}

impl Service {
    /// Reads what [`to_arguments`](Service::to_arguments) wrote.
    pub fn from_arguments(mut words: impl Iterator<Item = OsString>) -> Result<Service, Problem> {
        let file = words.next().ok_or("a worker is told a file")?.into();
        let urls: Vec<String> =
            words.map(OsString::into_string).collect::<Result<_, _>>().map_err(|_| "not UTF-8")?;
        let urls = urls.try_into().map_err(|_| format!("a worker is told {} URLs", VENDORS.len()))?;
        Ok(Service { file, urls })
    }

    fn to_arguments(&self) -> Vec<OsString> {
        let fixed = [WORKER.into(), self.file.clone().into_os_string()];
        fixed.into_iter().chain(self.urls.iter().map(OsString::from)).collect()
    }

    pub fn open(&self) -> Result<(Arc<Sqlite>, Shop), Problem> {
        let store = Arc::new(Sqlite::open(&self.file)?);
        let [stripe, bigcommerce, postmark] = &self.urls;
        let stripe = Stripe::new("sk_test_quickstart").base_url(stripe).settle_time(SETTLE_TIME);
        let bigcommerce = BigCommerce::new("abc123", "token").base_url(bigcommerce).settle_time(SETTLE_TIME);
        let postmark = Postmark::new("quickstart-token").base_url(postmark).settle_time(SETTLE_TIME);
        let shop = Shop::open(stripe, bigcommerce, postmark, &in_a_hurry(), &store)?;
        Ok((store, shop))
    }

    /// Runs the service until the process that started it lets go of its standard input, or dies.
    pub async fn run(self) -> Result<(), Problem> {
        let released = input_ends();
        let (_, shop) = self.open()?;
        let dispatcher = shop.deliver(DISPATCH_PERIOD);
        tokio::select! {
            _ = released => {}
            problem = take_orders(Arc::new(shop)) => return Err(problem),
        }
        dispatcher.stop(STOP_MAX).await;
        Ok(())
    }
}

/// The background policy with its ladder at a tenth and short leases, so that the example is over in seconds.
fn in_a_hurry() -> Policy {
    let ladder = Policy::background().backoff.steps.iter().map(|step| *step / 10).collect::<Vec<_>>();
    let second = Duration::from_secs(1);
    Policy::background()
        .backoff(Backoff::ladder(ladder))
        .timeout(Timeouts::new(second, second, 20 * second))
        .lease_margin(LEASE_MARGIN)
        // One answer in six is a fault here. From the default of 10/s the dispatcher would go no faster, as it should
        // not where a vendor fails that often because it goes down under its load. It halves each second that has such a
        // fault: a run that starts at 200/s may be down to a few a second, and then takes a minute.
        .recovery(RecoveryConfig::new(500, 500))
}

/// Takes every order, and then waits for more, as a service does. Comes back only with a problem.
async fn take_orders(shop: Arc<Shop>) -> Problem {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (shop, next) = (Arc::clone(&shop), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let order = next.fetch_add(1, Ordering::Relaxed);
                if order >= ORDERS {
                    return;
                }
                // An order that fails is on record, where its operators find it.
                _ = shop.take(order).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(panic) = ended {
            return panic.into();
        }
    }
    std::future::pending().await
}

/// Says when the standard input is at its end. A thread of its own, because a read that is under way would
/// keep the runtime from stopping.
fn input_ends() -> oneshot::Receiver<()> {
    let (ends, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ends.send(());
    });
    ended
}

/// A worker, as the process that started it holds it. Dropped, it is killed, so that no way out leaves one behind.
pub struct Worker {
    child: Child,
    /// The worker lives as long as this is open, even if we are killed.
    input: Option<ChildStdin>,
}

impl Worker {
    pub fn start(service: &Service) -> Result<Worker, Problem> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(service.to_arguments()).stdin(Stdio::piped()).stdout(Stdio::null());
        // Ctrl-C is for us; the worker ends when we let go of it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Worker { child, input })
    }

    /// Fails if it no longer runs, as it should until it is stopped.
    pub fn runs(&mut self) -> Result<(), Problem> {
        match self.child.try_wait()? {
            Some(status) => Err(format!("the worker ended by itself: {status}").into()),
            None => Ok(()),
        }
    }

    /// SIGKILL: no destructor, no flush, nothing of it runs any more.
    pub fn kill(mut self) -> Result<(), Problem> {
        self.child.kill()?;
        let status = self.child.wait()?;
        if status.success() { Err("the worker was gone before it was killed".into()) } else { Ok(()) }
    }

    /// Lets the worker end in its own time.
    pub async fn stop(mut self) -> Result<(), Problem> {
        self.input = None;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the worker ended badly: {status}").into()),
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails if it has ended, which is what is wanted. Waited for, so that its files can be removed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
