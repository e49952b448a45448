//! The process that is killed: the service, which takes orders and records every call in an SQLite file. Both
//! ends are here, what runs in the process and the handle by which the example watches it, kills it and starts
//! it again.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use steadfast::store::Sqlite;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Problem;
use super::shop::{ORDERS, Shop, VENDORS, Watch};

/// The hidden first argument that makes the program a worker.
pub(crate) const WORKER: &str = "--worker";

const AT_ONCE: usize = 16;

/// What a worker is told.
pub(crate) struct Service {
    pub(crate) file: PathBuf,
    /// The vendors', in the order of [`VENDORS`].
    pub(crate) urls: [String; 3],
    pub(crate) seed: u64,
}

/// How far the orders are, as the worker tells it: one JSON object a line.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Steps that succeeded, in the order of [`VENDORS`].
    succeeded: [usize; 3],
    failed: usize,
    postponed: usize,
    /// Orders that went as far as they go.
    pub(crate) orders: usize,
}

impl Progress {
    pub(crate) fn is_complete(&self) -> bool {
        self.orders == ORDERS
    }

    pub(crate) fn line(&self) -> String {
        let Progress { succeeded: [charged, created, sent], failed, postponed, .. } = self;
        format!(
            "charged {charged:>3}/{ORDERS}  ordered {created:>3}/{ORDERS}  receipts {sent:>3}/{ORDERS}  \
             failed {failed:>2}  postponed {postponed:>3}"
        )
    }
}

impl Service {
    /// Reads what [`to_arguments`](Service::to_arguments) wrote.
    pub(crate) fn from_arguments(words: impl Iterator<Item = OsString>) -> Result<Service, Problem> {
        let words: Vec<OsString> = words.collect();
        let [file, seed, urls @ ..] = words.as_slice() else { return Err("a worker is told more".into()) };
        let text = |word: &OsString| word.to_str().map(str::to_owned).ok_or("not UTF-8");
        let urls: Vec<String> = urls.iter().map(text).collect::<Result<_, _>>()?;
        let urls = urls.try_into().map_err(|_| format!("a worker is told {} URLs", VENDORS.len()))?;
        Ok(Service { file: file.into(), urls, seed: text(seed)?.parse()? })
    }

    fn to_arguments(&self) -> Vec<OsString> {
        let fixed = [WORKER.into(), self.file.clone().into_os_string(), self.seed.to_string().into()];
        fixed.into_iter().chain(self.urls.iter().map(OsString::from)).collect()
    }

    pub(crate) fn open(&self) -> Result<(Arc<Sqlite>, Shop), Problem> {
        let store = Arc::new(Sqlite::open(&self.file)?);
        let shop = Shop::open(&self.urls, self.seed, &store)?;
        Ok((store, shop))
    }

    /// Runs the service until whoever started it lets go of its standard input, or dies.
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let released = input_ends();
        let (_, shop) = self.open()?;
        let recovery = shop.keep_recovering();
        tokio::select! {
            _ = released => {}
            problem = take_orders(Arc::new(shop)) => return Err(problem),
        }
        drop(recovery);
        Ok(())
    }
}

/// Takes every order, and then waits for more, as a service does. Comes back only with a problem.
async fn take_orders(shop: Arc<Shop>) -> Problem {
    let (next, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(Told::default()));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (shop, next, told) = (Arc::clone(&shop), Arc::clone(&next), Arc::clone(&told));
        tasks.spawn(async move {
            loop {
                let order = next.fetch_add(1, Ordering::Relaxed);
                if order >= ORDERS {
                    return;
                }
                shop.take(order, &*told).await;
                told.tell(|progress| progress.orders += 1);
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

/// The progress, told on standard output with every change.
#[derive(Default)]
struct Told(parking_lot::Mutex<Progress>);

impl Told {
    fn tell(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.0.lock();
        change(&mut progress);
        // A closed pipe means that nobody listens any more; the standard input says so too.
        let line = serde_json::to_string(&*progress).unwrap_or_default();
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

impl Watch for Told {
    fn ended(&self, vendor: usize, succeeded: bool) {
        self.tell(|progress| {
            *(if succeeded { &mut progress.succeeded[vendor] } else { &mut progress.failed }) += 1;
        });
    }

    fn postponed(&self) {
        self.tell(|progress| progress.postponed += 1);
    }
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

/// A worker as whoever started it holds it. Dropped, it is killed, so that no way out leaves one behind.
pub(crate) struct Worker {
    child: Child,
    /// The worker lives as long as this is open, even if we are killed.
    input: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(service: &Service) -> Result<Worker, Problem> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(service.to_arguments()).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for us; the worker ends when we let go of it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or("the worker has no standard output")?;
        let said = BufReader::new(ChildStdout::from_std(output)?).lines();
        Ok(Worker { child, input, said })
    }

    /// How far it is, each time that it tells.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn progress(&mut self) -> Result<Progress, Problem> {
        match self.said.next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => Err(format!("the worker ended by itself: {}", self.child.wait()?).into()),
        }
    }

    /// SIGKILL: no destructor, no flush, nothing of it runs any more.
    pub(crate) fn kill(mut self) -> Result<(), Problem> {
        self.child.kill()?;
        let status = self.child.wait()?;
        if status.success() { Err("the worker was gone before it was killed".into()) } else { Ok(()) }
    }

    /// Lets the worker end in its own time.
    pub(crate) async fn stop(mut self) -> Result<(), Problem> {
        self.input = None;
        while self.said.next_line().await?.is_some() {}
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the worker ended badly: {status}").into()) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails if it has ended, which is what is wanted. Waited for, so that its files can be removed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
