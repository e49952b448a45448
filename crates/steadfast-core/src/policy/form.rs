//! Form of a [`Policy`] in a file: figures that belong together are one table. In code each figure is set by itself.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    Backoff, BreakerConfig, BudgetConfig, InFlight, Policy, RateConfig, RecoveryConfig, Timeouts,
    concurrency, limits, pause, switch,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Form {
    backoff: Backoff,
    timeout: Timeouts,
    #[serde(with = "pause")]
    pause: Duration,
    #[serde(with = "switch")]
    breaker: Option<BreakerConfig>,
    #[serde(with = "switch")]
    budget: Option<BudgetConfig>,
    #[serde(with = "switch")]
    rate: Option<RateConfig>,
    #[serde(with = "concurrency")]
    concurrency: Option<u32>,
    recovery: RecoveryConfig,
    limits: Bodies,
    record: Record,
    #[serde(with = "humantime_serde")]
    admission_wait: Duration,
    in_flight: InFlight,
    lookups_max: u32,
}

/// Limits on the size of bodies.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Bodies {
    request_bytes_max: usize,
    reply_bytes_max: usize,
}

/// Retention of records, and the margin of leases.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Record {
    #[serde(with = "humantime_serde")]
    keep: Duration,
    #[serde(with = "humantime_serde")]
    lease_margin: Duration,
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Form::of(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
        let form = Form::deserialize(deserializer)?;
        Ok(Policy {
            backoff: form.backoff,
            timeout: form.timeout,
            pause_max: form.pause,
            breaker: form.breaker,
            budget: form.budget,
            rate: form.rate,
            concurrency: form.concurrency,
            recovery: form.recovery,
            request_bytes_max: form.limits.request_bytes_max,
            reply_bytes_max: form.limits.reply_bytes_max,
            retention: form.record.keep,
            lease_margin: form.record.lease_margin,
            admission_wait: form.admission_wait,
            in_flight: form.in_flight,
            lookups_max: form.lookups_max,
        })
    }
}

impl Form {
    fn of(policy: Policy) -> Form {
        let Policy { request_bytes_max, reply_bytes_max, retention, lease_margin, .. } = policy;
        Form {
            backoff: policy.backoff,
            timeout: policy.timeout,
            pause: policy.pause_max,
            breaker: policy.breaker,
            budget: policy.budget,
            rate: policy.rate,
            concurrency: policy.concurrency,
            recovery: policy.recovery,
            limits: Bodies { request_bytes_max, reply_bytes_max },
            record: Record { keep: retention, lease_margin },
            admission_wait: policy.admission_wait,
            in_flight: policy.in_flight,
            lookups_max: policy.lookups_max,
        }
    }
}

impl Default for Form {
    fn default() -> Form {
        Form::of(Policy::default())
    }
}

impl Default for Bodies {
    fn default() -> Bodies {
        Bodies { request_bytes_max: limits::REQUEST_BYTES, reply_bytes_max: limits::REPLY_BYTES }
    }
}

impl Default for Record {
    fn default() -> Record {
        Record { keep: limits::RETENTION, lease_margin: limits::LEASE_MARGIN }
    }
}
