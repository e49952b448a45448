//! Distance of a host, and the time for which a request may be on its way there.

use std::time::Duration;

use url::{Host, Url};

/// Time for which a request may be queued, where nothing gives another. Kernels give up a closed socket that is not
/// acknowledged after about that: Linux after 8 tries without `TCP_USER_TIMEOUT` (tcp(7), `tcp_orphan_retries`).
pub const QUEUE_MAX: Duration = Duration::from_secs(120);

/// Whether the URL's host is this host itself, so that what is sent to it crosses no network.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}
