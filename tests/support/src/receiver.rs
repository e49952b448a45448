//! A listener for webhooks.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use http::HeaderMap;
use serde_json::Value;

/// Keeps what it is sent, and answers 200.
#[derive(Clone, Default)]
pub struct Receiver(Arc<Mutex<Vec<Webhook>>>);

#[derive(Debug, PartialEq)]
pub struct Webhook {
    pub headers: HeaderMap,
    pub body: Value,
}

impl Receiver {
    /// Listens on loopback; the URL too.
    pub async fn listen() -> (Receiver, String) {
        let receiver = Receiver::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("it is bound"));
        let all = Router::new().fallback(keep).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, all).await });
        (receiver, url)
    }

    /// The webhooks that were sent since this was last asked.
    pub fn taken(&self) -> Vec<Webhook> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }

    /// The same, without their heads.
    pub fn bodies(&self) -> Vec<Value> {
        self.taken().into_iter().map(|webhook| webhook.body).collect()
    }
}

async fn keep(State(receiver): State<Receiver>, headers: HeaderMap, body: String) {
    let body = serde_json::from_str(&body).expect("a webhook is JSON");
    receiver.0.lock().expect("no panic").push(Webhook { headers, body });
}
