//! Name and reason of an operator, for the audit record.
//!
//! Checked here and not by clap, which would name the reason in one error and the name in the next.

use clap::Args;

use steadfast::dead_letter::Change;

use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct Signature {
    #[command(flatten)]
    pub signer: Signer,
    /// The reason, for the audit record
    #[arg(long, value_name = "REASON", help_heading = HEADING)]
    pub why: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Signer {
    /// Your name, for the audit record [default: STEADFAST_BY, USER or LOGNAME]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub by: Option<String>,
}

impl Signature {
    /// Returns the name, and the reason if there is one.
    pub(crate) fn name(&self) -> Result<Change, Failure> {
        self.signed_from(variable, false)
    }

    /// Returns the name and the reason.
    pub(crate) fn name_and_reason(&self) -> Result<Change, Failure> {
        self.signed_from(variable, true)
    }

    fn signed_from(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        needs_why: bool,
    ) -> Result<Change, Failure> {
        let why = self.why.as_deref().filter(|why| !why.trim().is_empty());
        let give_why = match &self.why {
            Some(_) => "give a reason with --why, which is empty",
            None => "give --why REASON",
        };
        match (self.signer.name_from(variable), why) {
            (Ok(_), None) if needs_why => Err(missing("a reason is", give_why)),
            (Ok(by), why) => Ok(Change::by(by).because(why.unwrap_or_default())),
            (Err(give_by), None) if needs_why => {
                Err(missing("a name and a reason are", &format!("{give_by}, and {give_why}")))
            }
            (Err(give_by), _) => Err(missing("a name is", give_by)),
        }
    }
}

impl Signer {
    /// Returns the name.
    pub(crate) fn name(&self) -> Result<String, Failure> {
        self.name_from(variable).map_err(|give_by| missing("a name is", give_by))
    }

    /// Returns the operator's name, or a hint on how to set it.
    fn name_from(&self, variable: impl Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        let given = |name: &String| !name.trim().is_empty();
        match &self.by {
            Some(name) if given(name) => Ok(name.clone()),
            // Not the next source: a script that means another person must not sign as the one who runs it.
            Some(_) => Err("give a name with --by, which is empty"),
            None => VARIABLES
                .into_iter()
                .find_map(|name| variable(name).filter(given))
                .ok_or("give --by NAME or set STEADFAST_BY (USER and LOGNAME are not set either)"),
        }
    }
}

fn missing(what: &str, give: &str) -> Failure {
    Failure::Arguments(format!("{what} missing for the audit record: {give}"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Variables that are searched for a name, in this order. The first is for containers and scheduled jobs, which
/// have no login; a login sets one of the others or both.
const VARIABLES: [&str; 3] = ["STEADFAST_BY", "USER", "LOGNAME"];

const HEADING: &str = "Who does it, and why";
