//! Dead letters as JSON lines, for other programs.

use std::io::Write;

use steadfast_core::internal::visible::visible;
use steadfast_core::operation::record::Filter;

use super::{Change, DeadLetterError, DeadLetters, PAGE_ROWS};

impl DeadLetters {
    /// Writes every dead letter that matches to `out`, one JSON object to a line, each as
    /// [`show`](DeadLetters::show) gives it, and says how many.
    ///
    /// `out` is written to as it goes: give it a buffer or a file, not something that may block for long.
    ///
    /// # Errors
    ///
    /// As [`list`](DeadLetters::list) and [`show`](DeadLetters::show), and [`DeadLetterError::Output`]. The lines that
    /// were written until then are whole, but for the last.
    pub async fn export(
        &self,
        filter: &Filter,
        out: &mut (dyn Write + Send),
    ) -> Result<u64, DeadLetterError> {
        self.write(filter, None, out).await
    }

    /// Exports as [`export`](DeadLetters::export) does, with bodies and values: each as [`open`](DeadLetters::open)
    /// gives it. Name and reason of `how` are on the audit record of each.
    ///
    /// # Errors
    ///
    /// As [`list`](DeadLetters::list) and [`open`](DeadLetters::open), and [`DeadLetterError::Output`].
    pub async fn export_opened(
        &self,
        filter: &Filter,
        how: &Change,
        out: &mut (dyn Write + Send),
    ) -> Result<u64, DeadLetterError> {
        self.write(filter, Some(how), out).await
    }

    async fn write(
        &self,
        filter: &Filter,
        how: Option<&Change>,
        out: &mut (dyn Write + Send),
    ) -> Result<u64, DeadLetterError> {
        let asked = self.asked(filter).await?;
        let (mut written, mut after) = (0, None);
        loop {
            let page = self.letters(&asked, filter.code.as_deref(), after, PAGE_ROWS).await?;
            for letter in page.rows {
                let shown = match how {
                    Some(how) => self.open(&letter.id, how).await,
                    None => self.show(&letter.id).await,
                };
                let shown = match shown {
                    // Redriven, settled and purged since it was listed.
                    Err(DeadLetterError::Absent(_)) => continue,
                    shown => shown?,
                };
                let line = serde_json::to_string(&shown).map_err(std::io::Error::from)?;
                writeln!(out, "{}", visible(&line))?;
                written += 1;
            }
            after = page.next;
            if after.is_none() {
                return Ok(written);
            }
        }
    }
}
