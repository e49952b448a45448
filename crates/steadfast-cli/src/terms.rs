//! Terms that clients have registered for their accounts.

use std::io::{self, Write};

use serde_json::{Value, json};

use steadfast::store::{Store, StoreError};

use crate::arguments::TermsArguments;
use crate::failure::{DONE, Failure};
use crate::output::Output;
use crate::place::StorePlace;
use crate::text::plain;

pub(crate) async fn terms(
    place: &StorePlace,
    arguments: TermsArguments,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let (_, store) = place.open_both()?;
    match arguments.forget {
        Some(account) => forget(&*store, &account, output).await,
        None => show(&*store, output).await,
    }
}

async fn show(store: &dyn Store, output: &mut Output<'_>) -> Result<u8, Failure> {
    let Some(maintenance) = store.maintenance() else {
        let problem = format!("the store `{}` has no maintenance", store.name());
        return Err(Failure::Upkeep(StoreError::new(problem)));
    };
    let accounts = maintenance.head().await.map_err(Failure::Upkeep)?.accounts;
    let listed: Vec<(&String, Value)> = accounts
        .iter()
        .map(|(account, terms)| (account, serde_json::from_str(terms).unwrap_or_else(|_| json!(terms))))
        .collect();
    let rows: Vec<Value> =
        listed.iter().map(|(account, terms)| json!({ "account": account, "terms": terms })).collect();
    output.put(DONE, &json!({ "accounts": rows, "forgotten": null }), |_, out| print(&listed, out))
}

async fn forget(store: &dyn Store, account: &str, output: &mut Output<'_>) -> Result<u8, Failure> {
    let before = store.register(account, None).await.map_err(Failure::Upkeep)?;
    let forgotten = before.map(|_| account);
    output.put(DONE, &json!({ "accounts": [], "forgotten": forgotten }), |_, out| match forgotten {
        Some(account) => writeln!(out, "forgotten: {}", plain(account)),
        None => writeln!(out, "nothing is registered for {}", plain(account)),
    })
}

fn print(accounts: &[(&String, Value)], out: &mut (dyn Write + Send)) -> io::Result<()> {
    if accounts.is_empty() {
        writeln!(out, "no client has registered anything")?;
    }
    for (account, terms) in accounts {
        writeln!(out, "{}", plain(account))?;
        let Value::Object(terms) = terms else { continue };
        for (name, value) in terms {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(out, "    {}: {}", plain(name), plain(&value))?;
        }
    }
    Ok(())
}
