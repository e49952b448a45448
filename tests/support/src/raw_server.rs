//! A listener on loopback that reads requests off the socket and answers with whatever bytes, or none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The act of the server once it has read a whole request.
#[derive(Clone)]
pub enum Reply {
    /// Writes these bytes and waits for the next request.
    Bytes(Vec<u8>),
    /// Writes these bytes and closes the connection.
    ThenClose(Vec<u8>),
    /// Writes a chunked answer; the chunks are full of `a`, `b`, `c`, ….
    Chunks { of_bytes: usize, count: u8 },
    /// Writes an answer without end, until the other side hangs up.
    Endless,
    /// Closes the connection.
    Drop,
    /// Resets the connection.
    Reset,
    /// Says nothing and keeps the connection.
    Silence,
}

pub struct RawServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Vec<String>>,
    connections: AtomicUsize,
    hung_up: Semaphore,
}

impl RawServer {
    /// Answers the nth request (from 0) as `reply` says.
    pub async fn start(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> RawServer {
        let (listener, server) = RawServer::bind().await;
        let (shared, reply) = (server.shared.clone(), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let (shared, reply) = (shared.clone(), reply.clone());
                tokio::spawn(async move {
                    serve(socket, &shared, &*reply).await;
                    shared.hung_up.add_permits(1);
                });
            }
        });
        server
    }

    /// Reads once, whatever it is, answers with `bytes` and closes.
    pub async fn start_deaf(bytes: &'static str) -> RawServer {
        let (listener, server) = RawServer::bind().await;
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut buffer = [0u8; 4096];
                let _ = socket.read(&mut buffer).await;
                let _ = socket.write_all(bytes.as_bytes()).await;
                let _ = socket.shutdown().await;
            }
        });
        server
    }

    async fn bind() -> (TcpListener, RawServer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            hung_up: Semaphore::new(0),
        });
        (listener, RawServer { address, shared })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The whole requests read so far.
    pub fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().expect("no panic while held").clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Completes when one more connection has ended, from this side or the other.
    pub async fn hung_up(&self) {
        self.shared.hung_up.acquire().await.expect("never closed").forget();
    }
}

async fn serve(mut socket: TcpStream, shared: &Shared, reply: &(dyn Fn(usize) -> Reply + Send + Sync)) {
    while let Some(request) = read_request(&mut socket).await {
        let nth = {
            let mut seen = shared.seen.lock().expect("no panic while held");
            seen.push(request);
            seen.len() - 1
        };
        let written = match reply(nth) {
            Reply::Bytes(bytes) => socket.write_all(&bytes).await,
            Reply::ThenClose(bytes) => {
                let _ = socket.write_all(&bytes).await;
                return;
            }
            Reply::Chunks { of_bytes, count } => write_chunks(&mut socket, of_bytes, count).await,
            Reply::Endless => write_endlessly(&mut socket).await,
            Reply::Drop => return,
            Reply::Reset => {
                socket.set_zero_linger().expect("an open socket");
                return;
            }
            Reply::Silence => Ok(()),
        };
        if written.is_err() {
            return;
        }
    }
}

/// The next request with its body, or `None` at the end of the connection.
async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        let mut buffer = [0u8; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn write_chunks(socket: &mut TcpStream, of_bytes: usize, count: u8) -> std::io::Result<()> {
    socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    for nth in 0..count {
        let chunk = vec![b'a' + nth; of_bytes];
        socket.write_all(format!("{of_bytes:x}\r\n").as_bytes()).await?;
        socket.write_all(&chunk).await?;
        socket.write_all(b"\r\n").await?;
    }
    socket.write_all(b"0\r\n\r\n").await
}

async fn write_endlessly(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await?;
    loop {
        socket.write_all(&[b'x'; 4096]).await?;
    }
}
