//! No TLS in this build (feature `rustls`): what needs it is refused when the address is read.

use tokio_postgres::NoTls;

use super::address::Security;
use crate::store::StoreError;

/// Never asked.
pub(super) type Connector = NoTls;

pub(super) fn connector(_: &Security) -> Result<Connector, StoreError> {
    Ok(NoTls)
}
