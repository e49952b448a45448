//! The needs of a run of many schedules: its figures from the environment, its output, its panics.

use std::cell::Cell;
use std::sync::Once;

/// The number in a variable of the environment, if it is set.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

#[allow(clippy::print_stderr, reason = "figures that a reader of the test's output wants")]
pub fn print(text: &str) {
    eprintln!("{text}");
}

/// Panics on this thread so far, those that the code under test catches included.
pub fn panics() -> u64 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
    PANICS.get()
}

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Real time, for the figure of schedules a minute alone.
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "it measures the run itself")]
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    pub fn a_minute(&self, count: u64) -> f64 {
        count as f64 * 60.0 / self.0.elapsed().as_secs_f64()
    }
}
