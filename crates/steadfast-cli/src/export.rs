//! Export of dead letters as lines of JSON, to the terminal or a new file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::json;

use steadfast::dead_letter::{Change, DeadLetterError, DeadLetters};

use crate::failure::{DONE, Failure};
use crate::named::absent_vendor;
use crate::output::Output;
use crate::place::StorePlace;
use crate::print;
use crate::selection::Select;

/// Contents of an export.
pub(crate) struct Export {
    pub select: Select,
    pub redact: Vec<String>,
    /// Name and reason for showing bodies; `None` withholds them.
    pub how: Option<Change>,
}

impl Export {
    async fn write(
        &self,
        letters: &DeadLetters,
        out: &mut (dyn Write + Send),
    ) -> Result<u64, DeadLetterError> {
        let (letters, filter) = (letters.clone().redact(&self.redact), self.select.filter(letters.now()));
        match &self.how {
            Some(how) => letters.export_opened(&filter, how, out).await,
            None => letters.export(&filter, out).await,
        }
    }
}

/// Exports dead letters. The output is lines, so only an export into a file leaves room for an answer.
pub(crate) async fn export(
    place: &StorePlace,
    what: &Export,
    path: Option<&Path>,
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    let Some(path) = path else {
        if output.json {
            let problem = "an export is lines of JSON already, one for each letter: leave --json out, or write them \
                           into a file with --output PATH";
            return Err(Failure::Arguments(problem.to_owned()));
        }
        let letters = place.open()?;
        if what.write(&letters, output.out).await? == 0 {
            absent_vendor(&letters, what.select.vendor(), output).await?;
        }
        return Ok(DONE);
    };
    let letters = place.open()?;
    let failed = |error| Failure::File(path.to_owned(), error);
    let mut file = BufWriter::new(create(path).map_err(failed)?);
    let written = what.write(&letters, &mut file).await.map_err(|error| match error {
        DeadLetterError::Output(error) => failed(error),
        other => Failure::Letters(other),
    })?;
    let whole = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    whole.map_err(failed)?;
    if written == 0 {
        absent_vendor(&letters, what.select.vendor(), output).await?;
    }
    let name = path.display().to_string();
    output.put(DONE, &json!({ "file": name, "written": written }), |_, out| {
        print::exported(written, &name, out)
    })
}

/// Creates a new file that only its owner can read: it may have contents that the store does not show.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
