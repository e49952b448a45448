//! The way to a vendor: now and then a request takes as long as a connection can carry it.
//!
//! A request that has left arrives, also where whoever sent it has been killed meanwhile or has given up: it is in
//! buffers that are nobody's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast::Random as _;
use steadfast::testkit::SeededRandom;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Which requests are late, and how late.
#[derive(Debug)]
pub struct Late {
    random: SeededRandom,
    /// The longest exchange, as long as it takes on the machine.
    exchange_max: Duration,
    /// One request in so many.
    every: u64,
    count: AtomicU64,
}

impl Late {
    pub fn new(seed: u64, exchange_max: Duration, every: u64) -> Arc<Late> {
        let random = SeededRandom::new(seed);
        Arc::new(Late { random, exchange_max, every, count: AtomicU64::new(0) })
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How late the next request is: from a third of the longest exchange to nearly all of it, and where every request
    /// is late, nearly all of it.
    fn next(&self) -> Option<Duration> {
        if !self.random.next_u64().is_multiple_of(self.every) {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let least = if self.every == 1 { 850 } else { 333 };
        let thousandths = least + self.random.next_u64() % (933 - least);
        Some(self.exchange_max * u32::try_from(thousandths).expect("small") / 1_000)
    }
}

/// Listens, and passes everything on to the vendor at `there`. Gives the URL.
pub async fn open(there: SocketAddr, late: Arc<Late>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        loop {
            if let Ok((caller, _)) = listener.accept().await {
                let late = Arc::clone(&late);
                // A connection's error is its end, and each side sees it at its own.
                tokio::spawn(async move { carry(caller, there, &late).await.ok() });
            }
        }
    });
    url
}

async fn carry(mut caller: TcpStream, there: SocketAddr, late: &Late) -> std::io::Result<()> {
    let mut vendor = TcpStream::connect(there).await?;
    caller.set_nodelay(true)?;
    vendor.set_nodelay(true)?;
    if let Err(error) = exchange(&mut caller, &mut vendor, late).await {
        // Reset at one end, reset at the other.
        caller.set_zero_linger()?;
        return Err(error);
    }
    Ok(())
}

async fn exchange(caller: &mut TcpStream, vendor: &mut TcpStream, late: &Late) -> std::io::Result<u64> {
    let (mut from_caller, mut to_caller) = caller.split();
    let (mut from_vendor, mut to_vendor) = vendor.split();
    let there = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_caller.read(&mut bytes).await {
            if bytes.starts_with(b"POST ")
                && let Some(by) = late.next()
            {
                tokio::time::sleep(by).await;
            }
            if to_vendor.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
        // The caller has gone. The request that it sent is there, and the vendor sees that nobody waits.
        let _ = to_vendor.shutdown().await;
    };
    let back = tokio::io::copy(&mut from_vendor, &mut to_caller);
    tokio::pin!(there, back);
    tokio::select! {
        ended = &mut back => ended,
        () = &mut there => back.await,
    }
}
