//! The least HTTP/1.1 server that keeps its connections: one small answer to whatever comes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts the server on a thread and a runtime of its own; it lives as long as the process.
pub fn start() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a socket that tokio can take");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    address
}

async fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("a TCP socket");
    let mut held = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut held).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // Only GETs come, so a request ends with its head.
        while let Some(at) = held.windows(4).position(|window| window == b"\r\n\r\n") {
            held.drain(..at + 4);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
    }
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n\
{\"object\":\"thing\" }\n";
