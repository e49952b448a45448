//! The parts that the tests of several packages need.

#[cfg(feature = "client")]
pub mod acme;
#[cfg(feature = "client")]
pub mod adyen;
pub mod answers;
#[cfg(feature = "client")]
pub mod apart;
pub mod bare;
#[cfg(feature = "client")]
pub mod by_key;
pub mod calls;
pub mod commands;
pub mod cores;
#[cfg(feature = "client")]
pub mod draw;
pub mod in_memory;
#[cfg(feature = "client")]
pub mod keyed;
#[cfg(feature = "client")]
pub mod meanwhile;
pub mod members;
pub mod on_disk;
pub mod one_stream;
#[cfg(unix)]
pub mod pooler;
#[cfg(feature = "client")]
pub mod promise;
pub mod raw_server;
pub mod receiver;
#[cfg(feature = "client")]
pub mod rig;
pub mod run;
#[cfg(unix)]
pub mod server;
#[cfg(feature = "client")]
pub mod server_clock;
#[cfg(feature = "sqlite")]
pub mod stores;
#[cfg(feature = "client")]
pub mod stripe_routes;
#[cfg(feature = "client")]
pub mod tap;
#[cfg(feature = "client")]
pub mod trouble;
#[cfg(feature = "client")]
pub mod watched;
