//! The program: what was typed, how it ends. Begin with `lib.rs`.

use std::process::ExitCode;

use quickstart::Problem;
use quickstart::arguments::{Asked, HELP};
use quickstart::directory::Directory;
use quickstart::output::{complain, print};
use quickstart::worker::{Service, WORKER};

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == WORKER).is_some() {
        let ended = match Service::from_arguments(words) {
            Ok(service) => service.run().await,
            Err(problem) => Err(problem),
        };
        return exit_code(ended.map(|()| true));
    }
    let opened = Asked::parse(words).and_then(|asked| match asked {
        Asked::Help => Ok(None),
        Asked::Run(arguments) => Directory::open(arguments.keep.as_deref()).map(|at| Some((arguments, at))),
    });
    let (arguments, directory) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) => {
            print(HELP);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            complain(&*problem);
            return ExitCode::from(2);
        }
    };
    // Whichever way this ends, what `run` holds is dropped: the worker is killed, the directory removed.
    tokio::select! {
        biased;
        code = interrupted() => ExitCode::from(code),
        ended = quickstart::run(&arguments, directory) => exit_code(ended),
    }
}

/// Ends on Ctrl-C, or when the terminal goes or somebody asks for an end, with the exit code that shells give
/// for it. Without signals to hear, it never ends.
#[cfg(unix)]
async fn interrupted() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = async |kind| match signal(kind) {
        Ok(mut signals) => _ = signals.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = heard(SignalKind::hangup()) => 129,
        () = heard(SignalKind::interrupt()) => 130,
        () = heard(SignalKind::terminate()) => 143,
    }
}

#[cfg(not(unix))]
async fn interrupted() -> u8 {
    match tokio::signal::ctrl_c().await {
        Ok(()) => 130,
        Err(_) => std::future::pending().await,
    }
}

fn exit_code(ended: Result<bool, Problem>) -> ExitCode {
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            complain(&*problem);
            ExitCode::FAILURE
        }
    }
}
