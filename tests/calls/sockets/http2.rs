//! A server that speaks HTTP/2 by the frame (RFC 9113), so that it can say what no well-behaved server says on demand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The act of the server on a request that has arrived whole.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// `:status: 200`, without a body.
    Ok,
    /// RST_STREAM with this code.
    ResetStream(u32),
    /// GOAWAY with this last stream, then the end of the connection.
    GoAway { last_stream: Last, code: u32 },
    /// Nothing; the connection stays.
    Silence,
}

/// The last stream that a GOAWAY says may have been processed.
#[derive(Clone, Copy, Debug)]
pub enum Last {
    /// The one before the request's.
    Below,
    /// The request's own.
    Covering,
}

pub const NO_ERROR: u32 = 0;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;

pub struct Http2Server {
    address: SocketAddr,
    seen: Arc<AtomicUsize>,
}

impl Http2Server {
    /// Treats the nth request (from 0, over all connections) as `then` says.
    pub async fn start(then: impl Fn(usize) -> Then + Send + Sync + 'static) -> Http2Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(AtomicUsize::new(0));
        let (counter, then) = (Arc::clone(&seen), Arc::new(then));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (counter, then) = (Arc::clone(&counter), Arc::clone(&then));
                tokio::spawn(async move {
                    // The other side may hang up at any point.
                    let _ = serve(socket, &counter, &*then).await;
                });
            }
        });
        Http2Server { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many whole requests have arrived.
    pub fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut socket: TcpStream,
    seen: &AtomicUsize,
    then: &(dyn Fn(usize) -> Then + Send + Sync),
) -> std::io::Result<()> {
    let mut preface = [0; 24];
    socket.read_exact(&mut preface).await?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        let (kind, flags, stream) = read_frame(&mut socket).await?;
        if kind == SETTINGS && flags & ACK == 0 {
            socket.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
        }
        if !matches!(kind, HEADERS | DATA) || flags & END_STREAM == 0 {
            continue;
        }
        match then(seen.fetch_add(1, Ordering::SeqCst)) {
            Then::Ok => {
                // Entry 8 of HPACK's static table is `:status: 200` (RFC 7541, appendix A).
                socket.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88])).await?;
            }
            Then::ResetStream(code) => {
                socket.write_all(&frame(RST_STREAM, 0, stream, &code.to_be_bytes())).await?;
            }
            Then::GoAway { last_stream, code } => {
                let last = match last_stream {
                    Last::Below => stream - 1,
                    Last::Covering => stream,
                };
                let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
                socket.write_all(&frame(GOAWAY, 0, 0, &payload)).await?;
                return socket.shutdown().await;
            }
            Then::Silence => {}
        }
    }
}

/// Kind, flags and stream of the next frame; what it carries is skipped.
async fn read_frame(socket: &mut TcpStream) -> std::io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).await?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Ok((head[3], head[4], stream))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
