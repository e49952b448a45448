//! This very binary as another process: started, told, signalled, waited for.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

/// Far longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Process {
    child: Child,
    /// When this end is gone, however it went, the process ends.
    input: ChildStdin,
    said: BufReader<ChildStderr>,
    is_ready: bool,
}

impl Process {
    /// Starts the test of this name, which is not one by itself.
    pub fn start<const N: usize>(test: &str, environment: [(&'static str, String); N]) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(arguments(test));
        Process::spawn(command, environment)
    }

    /// As [`start`](Process::start), with files that grow no further than so many blocks of 512 bytes: writes
    /// beyond fail, as on a disk that is full.
    pub fn start_with_full_disk<const N: usize>(
        test: &str,
        environment: [(&'static str, String); N],
        blocks: u64,
    ) -> Process {
        let mut command = Command::new("sh");
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        command.args(["-c", &limited, "sh"]).arg(std::env::current_exe().expect("this binary"));
        command.args(arguments(test));
        Process::spawn(command, environment)
    }

    fn spawn<const N: usize>(mut command: Command, environment: [(&'static str, String); N]) -> Process {
        let mut child = command
            .envs(environment)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Should this process panic; should it be killed, the others see their input end.
            .kill_on_drop(true)
            .spawn()
            .expect("starts");
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let input = child.stdin.take().expect("piped");
        Process { child, input, said, is_ready: false }
    }

    pub async fn tell(&mut self, command: &str) {
        self.input.write_all(format!("{command}\n").as_bytes()).await.expect("it listens");
    }

    /// The next line that it says, or nothing if it has ended.
    pub async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.said.read_line(&mut line)).await;
        read.expect("a process answers in time").expect("a line");
        line.trim_end().to_owned()
    }

    /// Waits until a driver has its file open and takes orders.
    pub async fn ready(&mut self) {
        if self.is_ready {
            return;
        }
        let line = self.line().await;
        if line != "ready" {
            let mut rest = String::new();
            self.said.read_to_string(&mut rest).await.expect("the rest");
            panic!("a driver said: {line}\n{rest}");
        }
        self.is_ready = true;
    }

    pub fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("not waited for");
        let id = Pid::from_raw(i32::try_from(id).expect("a process id")).expect("not zero");
        kill_process(id, signal).expect("it is there");
    }

    /// SIGKILL: nothing of it runs any more, no destructor, no flush.
    pub async fn kill(mut self) {
        if let Some(status) = self.child.try_wait().expect("is ours") {
            let mut said = String::new();
            self.said.read_to_string(&mut said).await.expect("text");
            panic!("a driver ended by itself, {status}: {said}");
        }
        self.child.kill().await.expect("killed and waited for");
    }

    /// As [`kill`](Process::kill), of a process that may have ended by itself: whether it was killed.
    pub async fn kill_if_running(mut self) -> bool {
        let is_running = self.child.try_wait().expect("is ours").is_none();
        self.child.kill().await.expect("killed and waited for");
        is_running
    }

    /// Waits for its end: how it ended, and what it said.
    pub async fn ended(mut self, patience: Duration) -> (ExitStatus, Vec<String>) {
        let mut said = String::new();
        let all = async {
            self.said.read_to_string(&mut said).await.expect("text");
            self.child.wait().await.expect("is ours")
        };
        let status = tokio::time::timeout(patience, all).await.expect("the process ends in time");
        (status, said.lines().map(str::to_owned).collect())
    }

    /// Waits for its end by itself.
    pub async fn rested(self, patience: Duration) {
        let (status, said) = self.ended(patience).await;
        assert!(status.success(), "a driver ended with {status}: {said:?}");
    }

    /// Waits for its end by its own SIGKILL, and gives where that was.
    pub async fn died(self) -> Result<String, String> {
        let (status, mut said) = self.ended(PATIENCE).await;
        match (status.signal(), said.pop()) {
            (Some(KILLED), Some(last)) if last.starts_with("at ") => Ok(last[3..].to_owned()),
            (_, last) => Err(format!("{status}, and said {said:?} {last:?}")),
        }
    }
}

fn arguments(test: &str) -> [&str; 4] {
    ["--exact", test, "--nocapture", "--test-threads=1"]
}

const KILLED: i32 = 9;
