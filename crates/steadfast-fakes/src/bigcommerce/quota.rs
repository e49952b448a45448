//! A store's request quota: so many per window of 30 s, for all its apps together
//! (<https://developer.bigcommerce.com/docs/start/best-practices/api-rate-limits>).

use std::time::Duration;

use steadfast_core::clock::Timestamp;

/// The quota of the store, or none.
#[derive(Debug, Default)]
pub(super) struct Quota {
    limit: Option<u32>,
    begun: Option<Timestamp>,
    used: u32,
}

impl Quota {
    pub(super) fn new(limit: Option<u32>) -> Quota {
        Quota { limit, ..Quota::default() }
    }

    pub(super) fn is_set(&self) -> bool {
        self.limit.is_some()
    }

    /// Counts a request, or says how long it must wait.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        let Some(limit) = self.limit else { return Ok(()) };
        if self.begun.is_none_or(|begun| now.since(begun) >= WINDOW) {
            (self.begun, self.used) = (Some(now), 0);
        }
        if self.used >= limit {
            return Err(self.left_of_window(now));
        }
        self.used += 1;
        Ok(())
    }

    /// Puts the true figures in place of the fixture's, if there is a quota.
    pub(super) fn describe(&self, headers: &mut [(String, String)], now: Timestamp) {
        let Some(limit) = self.limit else { return };
        for (name, value) in headers {
            *value = match name.as_str() {
                "X-Rate-Limit-Requests-Quota" => limit.to_string(),
                "X-Rate-Limit-Requests-Left" => limit.saturating_sub(self.used).to_string(),
                "X-Rate-Limit-Time-Reset-Ms" => self.left_of_window(now).as_millis().to_string(),
                _ => continue,
            };
        }
    }

    fn left_of_window(&self, now: Timestamp) -> Duration {
        WINDOW.saturating_sub(now.since(self.begun.unwrap_or(now)))
    }
}

const WINDOW: Duration = Duration::from_secs(30);
