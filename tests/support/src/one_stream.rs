//! A vendor over HTTP/2 that takes one request at a time on a connection, and whose connections can be made to swallow.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use http::{Method, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

pub struct OneStream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The requests that arrived whole, as method and path.
    seen: Mutex<Vec<String>>,
    connections: AtomicUsize,
    release: Notify,
    /// Connections up to this number swallow.
    swallow: watch::Sender<usize>,
}

impl OneStream {
    pub async fn start() -> OneStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let number = accepting.connections.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(serve(socket, number, Arc::clone(&accepting)));
            }
        });
        OneStream { address, shared }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Whether this has arrived whole, by method and path.
    pub fn has_seen(&self, request: &str) -> bool {
        self.shared.seen.lock().expect("no panic in here").iter().any(|seen| seen == request)
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Answers the `GET /hold` that is under way.
    pub fn release(&self) {
        self.shared.release.notify_one();
    }

    /// From now on the connections that there are read nothing and answer nothing. New ones are served.
    pub fn swallow(&self) {
        self.shared.swallow.send_replace(self.connections());
    }
}

async fn serve(socket: TcpStream, number: usize, shared: Arc<Shared>) {
    let mut swallow = shared.swallow.subscribe();
    let handshake = Builder::new().max_concurrent_streams(1).handshake::<_, Bytes>(socket).await;
    let Ok(mut connection) = handshake else { return };
    loop {
        tokio::select! {
            biased;
            () = is_reached(&mut swallow, number) => std::future::pending().await,
            next = connection.accept() => match next {
                Some(Ok((request, respond))) => {
                    tokio::spawn(answer(request, respond, Arc::clone(&shared)));
                }
                _ => return,
            },
        }
    }
}

async fn is_reached(swallow: &mut watch::Receiver<usize>, number: usize) {
    // Not kept: it locks the channel.
    drop(swallow.wait_for(|last| number <= *last).await);
}

async fn answer(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>, shared: Arc<Shared>) {
    let (head, mut body) = request.into_parts();
    while let Some(chunk) = body.data().await {
        let Ok(chunk) = chunk else { return };
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    let seen = format!("{} {}", head.method, head.uri.path());
    shared.seen.lock().expect("no panic in here").push(seen);
    if head.method == Method::GET && head.uri.path() == "/hold" {
        shared.release.notified().await;
    }
    // `/503` is answered so.
    let status = head.uri.path()[1..].parse().unwrap_or(200_u16);
    let json = Response::builder().status(status).header("content-type", "application/json");
    if let Ok(mut sending) = respond.send_response(json.body(()).expect("a head"), false) {
        let _ = sending.send_data(Bytes::from_static(b"{}"), true);
    }
}
