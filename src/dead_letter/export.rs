//! Dead letters as JSON lines, for other programs.

use std::io::Write;

use super::{DeadLetterError, DeadLetters, PAGE_ROWS, Selection, View};

impl DeadLetters {
    /// Writes every dead letter that matches to `out`, one JSON object to a line, each as
    /// [`show`](DeadLetters::show) gives it, and says how many. An opened view is on the audit record of each.
    ///
    /// `out` is written to as it goes: give it a buffer or a file, not something that may block for long.
    ///
    /// # Errors
    ///
    /// As [`list`](DeadLetters::list) and [`show`](DeadLetters::show), and [`DeadLetterError::Output`]. What was
    /// written until then is whole lines, but for the last.
    pub async fn export(
        &self,
        selection: &Selection,
        view: &View,
        out: &mut (dyn Write + Send),
    ) -> Result<u64, DeadLetterError> {
        let filter = self.filter(selection).await?;
        let (mut written, mut after) = (0, None);
        loop {
            let page = self.letters(&filter, selection, after, PAGE_ROWS).await?;
            for letter in page.rows {
                let shown = match self.show(&letter.id, view).await {
                    // Redriven, settled and purged since it was listed.
                    Err(DeadLetterError::Absent(_)) => continue,
                    shown => shown?,
                };
                let line = serde_json::to_string(&shown).map_err(std::io::Error::from)?;
                writeln!(out, "{line}")?;
                written += 1;
            }
            after = page.next;
            if after.is_none() {
                return Ok(written);
            }
        }
    }
}
