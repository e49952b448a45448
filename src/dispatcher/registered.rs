//! The registration of a client's terms, without which nothing is carried on: they must be those of the account's other
//! services.

use std::time::Duration;

use super::asked;
use crate::client::Client;
use crate::telemetry;

/// Asks the store of each client whether its terms are those of the account's other services, and gives those whose
/// terms are not known to agree. A store that cannot answer stops no dispatcher: after a few times the delivery
/// begins all the same. It is asked again before each take, and those whose terms differ then take nothing.
pub(super) async fn register(clients: &[Client]) -> Vec<Client> {
    let (mut asked, mut differing) = (clients.to_vec(), Vec::new());
    for tries_left in (0..TRIES).rev() {
        let mut silent = Vec::new();
        for client in asked {
            match answer(&client).await {
                Answer::Agrees => {}
                Answer::Differs => differing.push(client),
                Answer::Silent => silent.push(client),
            }
        }
        let Some(first) = silent.first().filter(|_| tries_left > 0) else {
            differing.extend(silent);
            break;
        };
        pause(first, super::PERIOD).await;
        asked = silent;
    }
    differing
}

/// Asks again for those whose terms are not known to agree, until they do.
pub(super) async fn until_registered(mut differing: Vec<Client>) {
    while let Some(first) = differing.first() {
        pause(first, ASK_AGAIN).await;
        let mut still = Vec::new();
        for client in differing {
            if !matches!(answer(&client).await, Answer::Agrees) {
                still.push(client);
            }
        }
        differing = still;
    }
}

enum Answer {
    Agrees,
    Differs,
    Silent,
}

async fn answer(client: &Client) -> Answer {
    match asked(&*client.engine.clock, REGISTER, client.engine.register()).await {
        Ok(Ok(Ok(()))) => Answer::Agrees,
        Ok(Ok(Err(differs))) => {
            telemetry::disagrees(client.vendor(), &client.engine.account_path(), &differs);
            Answer::Differs
        }
        Ok(Err(error)) => {
            telemetry::recovery_failed(client.vendor(), &error);
            Answer::Silent
        }
        Err(panic) => {
            telemetry::recovery_panicked(client.vendor(), REGISTER, &*panic);
            Answer::Silent
        }
    }
}

async fn pause(client: &Client, lasts: Duration) {
    let clock = &client.engine.clock;
    clock.sleep_until(clock.now().plus(lasts)).await;
}

const REGISTER: &str = "register the terms of the account";

/// Number of times that a store that cannot answer is asked.
const TRIES: u32 = 3;

/// Pause in which a person changes a file or types a command.
const ASK_AGAIN: Duration = Duration::from_secs(30);
