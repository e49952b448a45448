//! Copies of records from one store to another.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use steadfast::store::{self, Copied, CopyError, Copying, SealKeys, Store, StoreUrl};

use crate::arguments::CopyArguments;
use crate::failure::{DONE, Failure};
use crate::output::Output;
use crate::place::seal_keys;
use crate::text::{plain, wrapped};

pub(crate) async fn copy(arguments: CopyArguments, output: &mut Output<'_>) -> Result<u8, Failure> {
    let CopyArguments { from, to, wait, unsealed, give_up, lost } = arguments;
    let from = read("--from", &from)?;
    let to = to.map(|to| read("--to", &to)).transpose()?;
    let how = Copying::new(from.to_string(), to.as_ref().map(ToString::to_string).unwrap_or_default());
    let how = if wait { how.wait() } else { how };
    let keys = seal_keys()?;
    let names = (from.to_string(), to.as_ref().map(ToString::to_string));
    // Two names of one file would be refused as a target with records of its own.
    if to.as_ref().is_some_and(|to| is_one_file(from.path(), to.path())) {
        return Err(Failure::Copy(CopyError::SameStore));
    }
    let source = open(from.create(false), keys.clone())?;
    let keys = if unsealed { None } else { keys };
    let target = to.map(|to| open(to.create(!give_up), keys)).transpose()?;
    match (give_up, target) {
        (true, target) => {
            store::give_up_copy(&*source, target.as_deref().filter(|_| !lost), &how)
                .await
                .map_err(Failure::Copy)?;
            let answer = answer(&Copied::default(), true);
            output.put(DONE, &answer, |_, out| writeln!(out, "{} is open", plain(&names.0)))
        }
        (false, Some(target)) => {
            let copied = store::copy(&*source, &*target, &how).await.map_err(Failure::Copy)?;
            let to = names.1.unwrap_or_default();
            output.put(DONE, &answer(&copied, false), |_, out| print(&copied, (&names.0, &to), out))
        }
        (false, None) => Err(Failure::Arguments("which store? Name the new one with --to URL".to_owned())),
    }
}

/// Reads a store's URL, with an absolute path, because other processes get it in errors.
fn read(option: &str, text: &OsStr) -> Result<StoreUrl, Failure> {
    let url =
        StoreUrl::from_argument(text).map_err(|error| Failure::Arguments(format!("{option}: {error}")))?;
    if url.is_memory() {
        let problem = format!("{option}: a store in memory ends with its process");
        return Err(Failure::Arguments(problem));
    }
    let directory = std::env::current_dir()
        .map_err(|error| Failure::Input(PathBuf::from("the working directory"), error))?;
    Ok(url.relative_to(&directory))
}

fn open(url: StoreUrl, keys: Option<SealKeys>) -> Result<Arc<dyn Store>, Failure> {
    let url = keys.into_iter().fold(url, StoreUrl::seal);
    url.open().map_err(Failure::Store)
}

/// Returns true if both files exist and are the same, also by way of a link.
fn is_one_file(from: Option<&Path>, to: Option<&Path>) -> bool {
    let whole = |path: Option<&Path>| path.and_then(|path| path.canonicalize().ok());
    whole(from).is_some_and(|from| whole(to) == Some(from))
}

fn answer(copied: &Copied, given_up: bool) -> serde_json::Value {
    json!({
        "given_up": given_up,
        "was_complete": copied.was_complete,
        "operations": copied.operations,
        "written": copied.written,
        "audit": copied.audit,
        "checksum": hex(&copied.checksum),
    })
}

fn print(copied: &Copied, (from, to): (&str, &str), out: &mut (dyn Write + Send)) -> io::Result<()> {
    let Copied { operations, audit, checksum, .. } = copied;
    let (from, to) = (plain(from), plain(to));
    if copied.was_complete {
        writeln!(out, "{}", wrapped(&format!("nothing to do: all records of {from} are in {to} already"), ""))
    } else {
        let what = format!("{operations} operations and {audit} entries of the audit record are in {to}");
        writeln!(out, "{}", wrapped(&what, ""))?;
        writeln!(out, "each was compared; checksum {}", hex(checksum))?;
        writeln!(out, "{}", wrapped(&format!("{from} is closed; configure the service to use {to}"), ""))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
