//! The words that callers were told, written down by the process that told them before it goes on.
//!
//! One JSON object a line, each in one write to a file that is opened for appending: a process that is killed loses
//! nothing that it told, and a last line that is torn is no word. Beside the words there is what it takes to judge
//! them: who asked for an operation, and which of its requests left.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast::clock::Timestamp;
use steadfast::{Disposition, Effect, Error, Obtained, Reply};

use crate::clock::Time;

/// The header that says which operation a request is of: read by nobody but the audit. A lookup has none.
pub const OPERATION: &str = "x-operation";

tokio::task_local! {
    /// The moment up to which this task's call knows what became of its operation: when it last asked the store, or
    /// last heard from the vendor.
    static KNOWN_UNTIL_MS: Cell<u64>;
}

/// A process's own words.
#[derive(Debug)]
pub struct Words {
    pub time: Time,
    directory: PathBuf,
    /// Tells this process's files and calls from all others'.
    process: String,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    file: Option<File>,
    bytes: usize,
    parts: usize,
    calls: u64,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    at_ms: u64,
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
enum What {
    Asked { call: u64, redrives: bool },
    Accepted,
    Left,
    Told { call: u64, known_until_ms: u64, said: Said },
}

/// The word that a caller was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// Which object of the vendor's it names, as far as it names one.
    Reply {
        obtained: How,
        object: Option<String>,
    },
    Error {
        effect: Effect,
        next: Next,
        code: String,
        is_refusal: bool,
        text: String,
    },
}

/// [`Obtained`], for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    Fresh,
    Replayed,
    Reconciled,
}

/// [`Disposition`], for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    Ended,
    Continues,
    AwaitsOperator,
}

impl Said {
    fn of(told: &Result<Reply, Error>) -> Said {
        match told {
            Ok(reply) => Said::Reply { obtained: How::of(reply.obtained()), object: object(&reply.text()) },
            Err(error) => Said::Error {
                effect: error.effect(),
                next: Next::of(error.disposition()),
                code: error.code().to_owned(),
                is_refusal: error.is_refused(),
                text: error.to_string(),
            },
        }
    }
}

impl How {
    fn of(obtained: Obtained) -> How {
        match obtained {
            Obtained::Fresh => How::Fresh,
            Obtained::Replayed => How::Replayed,
            Obtained::Reconciled => How::Reconciled,
            other => panic!("a reply that no rule is for: {other:?}"),
        }
    }
}

impl Next {
    fn of(disposition: Disposition) -> Next {
        match disposition {
            Disposition::Ended => Next::Ended,
            Disposition::Continues { .. } => Next::Continues,
            Disposition::AwaitsOperator => Next::AwaitsOperator,
        }
    }
}

/// The id in a reply: Stripe's and BigCommerce's v2 `id`, BigCommerce's v3 `data.id`, Postmark's `MessageID`, Adyen's
/// `pspReference`.
fn object(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let places = [&body["pspReference"], &body["MessageID"], &body["data"]["id"], &body["id"]];
    let id = places.into_iter().find(|id| !id.is_null())?;
    Some(id.as_str().map_or_else(|| id.to_string(), str::to_owned))
}

impl Words {
    /// Those of this process, in files of its own in `directory`.
    pub fn new(time: Time, directory: impl Into<PathBuf>) -> Words {
        // A process id is used again in a long run.
        let process = format!("{}-{}", std::process::id(), time.wall().as_millis());
        Words { time, directory: directory.into(), process, open: Mutex::default() }
    }

    /// Makes one call of an operation, and writes down that it was asked for and what it was told.
    pub async fn of_call(
        &self,
        key: &str,
        call: impl Future<Output = Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let number = self.asks(key, false);
        let known = Cell::new(self.time.wall().as_millis());
        let call = async {
            let told = call.await;
            (told, KNOWN_UNTIL_MS.with(Cell::get))
        };
        let (told, known_until_ms) = KNOWN_UNTIL_MS.scope(known, call).await;
        self.write(key, What::Told { call: number, known_until_ms, said: Said::of(&told) });
        told
    }

    /// The caller was told that its operation is on record and will be delivered.
    pub fn accepted(&self, key: &str) {
        self.write(key, What::Accepted);
    }

    /// Before an operator makes a dead letter due.
    pub fn redrives(&self, key: &str) {
        self.asks(key, true);
    }

    /// A request of the operation is about to leave.
    pub fn leaves(&self, key: &str) {
        self.write(key, What::Left);
        self.knows(self.time.wall());
    }

    /// This task's call knows how things stood at that moment.
    pub fn knows(&self, at: Timestamp) {
        // Nobody is told what recovery comes to.
        let _ = KNOWN_UNTIL_MS.try_with(|known| known.set(at.as_millis()));
    }

    fn asks(&self, key: &str, redrives: bool) -> u64 {
        let call = {
            let mut open = self.open.lock();
            open.calls += 1;
            open.calls
        };
        self.write(key, What::Asked { call, redrives });
        call
    }

    fn write(&self, key: &str, what: What) {
        let line = Line { key: key.to_owned(), at_ms: self.time.wall().as_millis(), what };
        let mut text = serde_json::to_vec(&line).expect("plain data");
        text.push(b'\n');
        let mut open = self.open.lock();
        if open.file.is_none() || open.bytes + text.len() > PART_BYTES_MAX {
            (open.parts, open.bytes) = (open.parts + 1, 0);
            let path = self.directory.join(format!("words-{}-{}.jsonl", self.process, open.parts));
            open.file = Some(File::options().create(true).append(true).open(path).expect("a file"));
        }
        open.bytes += text.len();
        open.file.as_mut().expect("open").write_all(&text).expect("it is written");
    }
}

/// A process with a full disk has files of at most 128 KiB: the words go on in another file before that.
const PART_BYTES_MAX: usize = 64 * 1024;

/// All that was heard about one operation.
#[derive(Debug, Default)]
pub struct Heard {
    pub asked: Vec<Asked>,
    pub told: Vec<Told>,
    pub left_ms: Vec<u64>,
    /// Whether a caller was told that it is on record.
    pub is_accepted: bool,
}

/// A call, or a redrive.
#[derive(Debug)]
pub struct Asked {
    pub process: String,
    pub call: u64,
    pub redrives: bool,
    pub at_ms: u64,
    /// When it was told something; `None` for a process that died first, and for a redrive.
    pub ended_ms: Option<u64>,
}

/// A word.
#[derive(Debug)]
pub struct Told {
    pub process: String,
    pub call: u64,
    pub at_ms: u64,
    pub known_until_ms: u64,
    pub said: Said,
}

/// The words that all processes of a directory told, by key.
#[derive(Debug, Default)]
pub struct AllHeard(BTreeMap<String, Heard>);

impl AllHeard {
    pub fn read(directory: &Path) -> AllHeard {
        let mut all = AllHeard::default();
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((process, _)) = name.strip_prefix("words-").and_then(|name| name.rsplit_once('-'))
            else {
                continue;
            };
            let text = fs::read(&path).expect("the words");
            let text = String::from_utf8_lossy(&text);
            // Behind the last line's end is nothing, or what a kill has torn.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            for line in whole.lines() {
                let line: Line = serde_json::from_str(line).unwrap_or_else(|_| panic!("{path:?}: {line}"));
                all.hear(process, line);
            }
        }
        for heard in all.0.values_mut() {
            for told in &heard.told {
                let asked = heard.asked.iter_mut();
                let mut asked =
                    asked.filter(|asked| (&asked.process, asked.call) == (&told.process, told.call));
                asked.next().expect("nobody is told without asking").ended_ms = Some(told.at_ms);
            }
        }
        all
    }

    fn hear(&mut self, process: &str, Line { key, at_ms, what }: Line) {
        let process = process.to_owned();
        let heard = self.0.entry(key).or_default();
        match what {
            What::Asked { call, redrives } => {
                heard.asked.push(Asked { process, call, redrives, at_ms, ended_ms: None });
            }
            What::Accepted => heard.is_accepted = true,
            What::Left => heard.left_ms.push(at_ms),
            What::Told { call, known_until_ms, said } => {
                heard.told.push(Told { process, call, at_ms, known_until_ms, said });
            }
        }
    }

    /// How many orders have a request of this step that has left.
    pub fn left_for(&self, step: &str) -> usize {
        let is_of = |key: &str| key.split_once('/').is_some_and(|(_, own)| own == step);
        self.0.iter().filter(|(key, heard)| is_of(key) && !heard.left_ms.is_empty()).count()
    }

    /// Of which operations a caller was told that they are on record, or got the reply.
    #[cfg(feature = "postgres")]
    pub fn promised(&self) -> impl Iterator<Item = &str> {
        let has_reply = |heard: &Heard| heard.told.iter().any(|told| matches!(told.said, Said::Reply { .. }));
        self.0
            .iter()
            .filter(move |(_, heard)| heard.is_accepted || has_reply(heard))
            .map(|(key, _)| key.as_str())
    }

    pub fn take(&mut self, key: &str) -> Heard {
        self.0.remove(key).unwrap_or_default()
    }
}
