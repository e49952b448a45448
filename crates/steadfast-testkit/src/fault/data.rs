//! A plan as data: in a file for `steadfast fakes`, or in a request to a running fake.

use std::fmt;

use http::Method;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::{Fault, FaultPlan, Rule};
use crate::near::near;

/// Writes the form of [`Fault::to_header`].
impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_header())
    }
}

/// Reads the form of [`Fault::from_header`].
impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fault, D::Error> {
        deserializer.deserialize_str(FaultName)
    }
}

struct FaultName;

impl Visitor<'_> for FaultName {
    type Value = Fault;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fault, one of {}", super::names().join(", "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Fault, E> {
        Fault::from_header(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Reads `seed`, `rate` and `among`, the arguments of [`FaultPlan::seeded`], and under `fault` a list of
/// arguments of [`next`](FaultPlan::next), [`when`](FaultPlan::when) and [`whenever`](FaultPlan::whenever).
///
/// ```
/// use http::Method;
/// use steadfast::testkit::{Fault, FaultPlan};
///
/// # fn main() -> Result<(), toml::de::Error> {
/// let plan: FaultPlan = toml::from_str(
///     r#"
///     seed = 7
///     rate = 0.05
///     among = ["reset", "error-500-after"]
///
///     [[fault]]
///     fault = "drop-after-apply"
///
///     [[fault]]
///     fault = "too-many-requests=seconds:3"
///     method = "POST"
///     path = "/v1/refunds"
///     times = 2
///     "#,
/// )?;
/// assert_eq!(plan.pending(), 3);
/// assert_eq!(plan.decide(&Method::POST, "/v1/charges"), Some(Fault::DropAfterApply));
/// # Ok(())
/// # }
/// ```
impl<'de> Deserialize<'de> for FaultPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FaultPlan, D::Error> {
        planned::<NoSettings, D>(deserializer).map(|(plan, _)| plan)
    }
}

/// Reads a plan, and the settings of the fake that it is for.
pub fn planned<'de, S: Default + DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(FaultPlan, S), D::Error> {
    let file: PlanFile<S> = near(deserializer)?;
    let plan = match (file.seed, file.rate, file.among.as_slice()) {
        (None, None, []) => FaultPlan::new(),
        (Some(seed), Some(rate), among) if (0.0..=1.0).contains(&rate) && !among.is_empty() => {
            FaultPlan::seeded(seed, rate, among)
        }
        _ => {
            let need = "seed, rate (0 to 1) and among (faults) go together";
            return Err(de::Error::custom(need));
        }
    };
    file.fault.iter().for_each(|rule| rule.add_to(&plan));
    Ok((plan, file.settings))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "S: Default + DeserializeOwned")]
struct PlanFile<S> {
    seed: Option<u64>,
    rate: Option<f64>,
    #[serde(default)]
    among: Vec<Fault>,
    #[serde(default)]
    fault: Vec<FaultRule>,
    #[serde(default, deserialize_with = "near")]
    settings: S,
}

/// Settings of a plan that is for no fake.
#[derive(Default)]
struct NoSettings;

impl<'de> Deserialize<'de> for NoSettings {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<NoSettings, D::Error> {
        Err(de::Error::custom("a plan of faults has no settings; a fake has"))
    }
}

/// A fault to come.
#[derive(Debug)]
pub struct FaultRule {
    fault: Fault,
    path: String,
    method: Option<Method>,
    /// Number of requests that meet it. `None`: all.
    times: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    fault: Fault,
    path: Option<String>,
    method: Option<String>,
    times: Option<usize>,
    #[serde(default)]
    always: bool,
}

impl<'de> Deserialize<'de> for FaultRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FaultRule, D::Error> {
        near::<RuleFile, D>(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

impl TryFrom<RuleFile> for FaultRule {
    type Error = String;

    fn try_from(file: RuleFile) -> Result<FaultRule, String> {
        let times = match (file.always, file.times) {
            (true, None) => None,
            (true, Some(_)) => return Err("times and always exclude each other".to_owned()),
            (false, times @ (None | Some(1..=TIMES_MAX))) => Some(times.unwrap_or(1)),
            (false, Some(_)) => return Err(format!("times is between 1 and {TIMES_MAX}")),
        };
        let method = file.method.map(|method| method.to_uppercase());
        let method = match method.as_deref().map(str::parse) {
            None => None,
            Some(Ok(method)) => Some(method),
            Some(Err(_)) => return Err("method is no HTTP method".to_owned()),
        };
        Ok(FaultRule { fault: file.fault, path: file.path.unwrap_or_default(), method, times })
    }
}

/// Returns the faults that last until they are cleared: the fault, its method and its path prefix.
pub fn lasting(plan: &FaultPlan) -> Vec<(Fault, Option<Method>, String)> {
    let plan = plan.0.lock();
    let lasting = plan.rules.iter().filter(|rule| !rule.once);
    lasting.map(|rule| (rule.fault, rule.method.clone(), rule.path_prefix.clone())).collect()
}

impl FaultRule {
    /// Adds the rule to `plan`. Without a path and a method it is for the next requests, whatever their target.
    pub fn add_to(&self, plan: &FaultPlan) {
        match self.times {
            Some(times) if self.path.is_empty() && self.method.is_none() => {
                plan.next_n(self.fault, times);
            }
            times => {
                for _ in 0..times.unwrap_or(1) {
                    plan.0.lock().rules.push(Rule {
                        path_prefix: self.path.clone(),
                        method: self.method.clone(),
                        fault: self.fault,
                        once: times.is_some(),
                    });
                }
            }
        }
    }
}

/// Maximum of `times`: more than any test needs, and no more than the queue may hold.
const TIMES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<FaultPlan, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.to_string())
    }

    #[test]
    fn a_rule_without_a_method_or_a_path_matches_all() {
        let plan = read("[[fault]]\nfault = 'reset'\npath = '/v1'\ntimes = 2").unwrap();
        for (path, fault) in
            [("/v2", None), ("/v1/a", Some(Fault::Reset)), ("/v1/b", Some(Fault::Reset)), ("/v1/c", None)]
        {
            assert_eq!(plan.decide(&Method::GET, path), fault, "{path}");
        }
        let plan = read("[[fault]]\nfault = 'slow-body=250'\nmethod = 'post'\nalways = true").unwrap();
        assert_eq!(
            lasting(&plan),
            [(Fault::SlowBody(Duration::from_millis(250)), Some(Method::POST), String::new())]
        );
        for _ in 0..3 {
            assert_eq!(plan.decide(&Method::GET, "/"), None);
            let slow = Fault::SlowBody(Duration::from_millis(250));
            assert_eq!(plan.decide(&Method::POST, "/any"), Some(slow));
        }
        assert_eq!(plan.pending(), 0);
    }

    #[test]
    fn an_invalid_plan_is_refused_with_a_hint() {
        for (text, expected) in [
            ("[[fault]]\nfault = 'lightning'", "a fault, one of drop-before-read, drop-after-apply"),
            ("[[fault]]\nfault = 'reset'\ntime = 2", "unknown field `time`; did you mean `times`?"),
            ("[settings]\nbusy_for = '1s'", "a plan of faults has no settings"),
            ("[[fault]]\nfault = 'reset'\ntimes = 0", "times is between 1 and 100000"),
            ("[[fault]]\nfault = 'reset'\ntimes = 2\nalways = true", "times and always exclude each other"),
            ("[[fault]]\nfault = 'reset'\nmethod = 'P T'", "method is no HTTP method"),
            ("rate = 0.5\namong = ['reset']", "seed, rate (0 to 1) and among (faults) go together"),
            ("seed = 1\nrate = 2.0\namong = ['reset']", "seed, rate (0 to 1) and among (faults) go together"),
            ("seed = 1\nrate = nan\namong = ['reset']", "seed, rate (0 to 1) and among (faults) go together"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn every_faults_name_can_be_read_again() {
        for name in super::super::names() {
            let file = name.replace("=250", "=1").replace("=none", "=vendor:1500");
            let fault = Fault::from_header(&file).unwrap();
            assert_eq!(serde_json::to_value(fault).unwrap(), file.as_str());
            assert_eq!(serde_json::from_value::<Fault>(file.into()).unwrap(), fault);
        }
    }
}
