//! The way to a vendor and back, which takes time and belongs to nobody: a request that has left arrives, whatever
//! becomes of whoever sent it.

use std::sync::Arc;
use std::time::Duration;

use steadfast::BoxFuture;
use steadfast::transport::{Answer, Limits, Request, SendError, SendErrorKind, Transport};
use tokio::sync::oneshot;

use crate::plan::{When, ms, secs};
use crate::process::Life;
use crate::vendors::Backend;

/// The longest that a request is under way to the vendor, or waits there. Longer than an attempt's limit, so that
/// some take effect after the caller has given up.
pub const WAY_MAX: Duration = ms(2_500);

/// One process's way to one vendor.
#[derive(Debug)]
pub struct Network {
    pub life: Arc<Life>,
    pub backend: Backend,
}

impl Network {
    async fn exchange(&self, request: Request, limits: Limits) -> Result<Answer, SendError> {
        let (life, world) = (&self.life, &self.life.world);
        let nth = life.request();
        let shown = format!("p{} request {nth} {} {}", life.process, request.method, request.url.path());
        if world.is_rough() && world.draw.one_in(40) {
            world.note(|| format!("{shown}: no connection"));
            return Err(SendError::new(SendErrorKind::Connect));
        }
        let there = if world.is_rough() && world.draw.one_in(8) {
            world.draw.within(ms(200)..WAY_MAX)
        } else {
            world.draw.within(ms(5)..ms(200))
        };
        let back = world.draw.within(ms(5)..ms(200));
        world.note(|| format!("{shown}: leaves"));
        let (told, answer) = oneshot::channel();
        let backend = self.backend.clone();
        let (clock, on_the_way) = (world.clock.clone(), world.clone());
        tokio::spawn(async move {
            clock.latency(there).await;
            let fault = on_the_way.fault();
            if let Some(fault) = fault {
                on_the_way.note(|| format!("{shown}: meets {}", fault.name()));
            }
            let outcome = backend.carry_out(request, limits, fault).await;
            on_the_way.note(|| match &outcome {
                Ok(answer) => format!("{shown}: {}", answer.status.as_u16()),
                Err(error) => format!("{shown}: {error}"),
            });
            if let Ok(answer) = &outcome {
                on_the_way.answered(answer);
            }
            clock.latency(back).await;
            // Nobody may be there any more.
            let _ = told.send(outcome);
        });
        life.meets(When::AfterSend(nth));
        let outcome = answer.await.unwrap_or_else(|_| Err(SendError::new(SendErrorKind::Reset)));
        life.goes_on().await;
        outcome
    }
}

impl Transport for Network {
    fn send(&self, request: Request, limits: Limits) -> BoxFuture<'_, Result<Answer, SendError>> {
        Box::pin(self.exchange(request, limits))
    }

    fn queue_max(&self, _: &url::Url) -> Duration {
        Duration::ZERO
    }
}

/// How long a client waits before it believes a lookup: the lease of a holder whom a wall clock that is set may
/// rob of it while its first request has not left, the longest way, and the fakes' lag.
pub const SETTLE_TIME: Duration = secs(6);
