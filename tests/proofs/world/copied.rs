//! Staging is refreshed from production: the store is copied as the hosts left it, and opened beside the original. Whatever
//! was under way, the copy sends nothing, before it is told what it is and after.

use std::sync::Arc;

use steadfast::operation::record::{Filter, Phase};
use steadfast::store::{self, Memory, Said, Store};
use steadfast_core::store::maintenance::{Restore, Row, Stage, Standing};

use crate::world::course::World;
use crate::world::plan::secs;
use crate::world::process::Life;

impl World {
    /// # Panics
    ///
    /// If the copy sends anything, or leaves anything open.
    pub async fn refresh_staging(&self, operator: &Arc<Life>) {
        let copy = Memory::new();
        let maintenance = copy.maintenance().expect("it can be copied");
        let records = self.records().await;
        let rows = records.into_iter().map(|record| Row { record, evidence: Vec::new() }).collect();
        let arriving = Standing { stage: Stage::Arriving, copy: "staging".to_owned(), other: String::new() };
        maintenance.stand(&Standing::default(), &arriving).await.expect("a store");
        let restore = Restore { copy: arriving.copy.clone(), rows, ..Restore::default() };
        maintenance.restore(restore).await.expect("a store");
        // The mark that an opening finds of a copied file, or a copied database.
        maintenance.stand(&arriving, &Standing::displaced("a copy".to_owned())).await.expect("a store");
        let copy: Arc<dyn Store> = Arc::new(copy);
        let clients = self.clients_on(operator, (STAGING, &copy));
        for (_, client) in &clients {
            assert!(client.recover(100).await.is_err(), "a copy takes nothing");
        }
        let said = store::here(&copy, Some(Said::Copy), ("ann", "staging"), self.time()).await;
        let left = said.expect("a store").operations;
        for (_, client) in &clients {
            // Once more where the store fails, which is not for ever.
            let mut last = client.recover(100).await;
            for _ in 0..10 {
                if last.is_err() {
                    self.clock.latency(secs(30)).await;
                    last = client.recover(100).await;
                }
            }
            last.expect("it is open");
        }
        self.note(|| format!("staging is refreshed, and leaves {left} operations to the original"));
        let open = vec![Phase::InProgress, Phase::Scheduled, Phase::Dead];
        let open = copy.list(&Filter { phases: open, ..Filter::default() }, None, 100).await.expect("a page");
        assert_eq!(open.rows, [], "the original carries it out");
        let sent = self.facts.with(|all| all.attempts.iter().filter(|attempt| attempt.0 == STAGING).count());
        assert_eq!(sent, 0, "a copy sends nothing");
    }
}

/// No other client has it.
const STAGING: u64 = u64::MAX;
