//! Build without TLS (feature `rustls`): an address that needs it is refused when it is parsed.

use tokio_postgres::NoTls;

use steadfast_core::store::StoreError;

use super::address::Security;

/// Connector without TLS. Never used for TLS.
pub(super) type Connector = NoTls;

pub(super) fn connector(_: &Security) -> Result<Connector, StoreError> {
    Ok(NoTls)
}
