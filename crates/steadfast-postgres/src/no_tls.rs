//! No TLS in this build (feature `rustls`): what needs it is refused when the address is read.

use tokio_postgres::NoTls;

use steadfast_core::store::StoreError;

use super::address::Security;

/// Never asked.
pub(super) type Connector = NoTls;

pub(super) fn connector(_: &Security) -> Result<Connector, StoreError> {
    Ok(NoTls)
}
