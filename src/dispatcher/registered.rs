//! Nothing is carried on before this client's terms are known to be those of the account's other services.

use std::time::Duration;

use tokio::sync::watch;

use crate::client::Client;
use crate::telemetry;

impl Client {
    /// Waits until the client's terms are registered, or nobody waits for recovery any more. A store that cannot answer
    /// stops nobody: what it cannot say is then not looked at.
    pub(super) async fn until_registered(&self, mut stopped: watch::Receiver<()>) {
        let mut tries_left = TRIES;
        loop {
            let pause = match self.engine.register().await {
                Ok(Ok(())) => return,
                Ok(Err(differs)) => {
                    telemetry::disagrees(self.vendor(), &self.engine.account_path(), &differs);
                    ASK_AGAIN
                }
                Err(error) => {
                    telemetry::recovery_failed(self.vendor(), &error);
                    tries_left -= 1;
                    if tries_left == 0 {
                        return;
                    }
                    super::PERIOD
                }
            };
            let clock = &self.engine.clock;
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                () = clock.sleep_until(clock.now().plus(pause)) => {}
            }
        }
    }
}

/// How often a store that cannot answer is asked.
const TRIES: u32 = 3;

/// Somebody has to change a file or type a command meanwhile.
const ASK_AGAIN: Duration = Duration::from_secs(30);
