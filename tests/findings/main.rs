//! What an outside review found, a test for each row by its number: each failed before it was mended.

mod addresses;
#[path = "../hosts/apart.rs"]
mod apart;
mod attack;
mod attack2;
mod attack3;
mod clocks;
#[path = "../hosts/commands.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod commands;
mod dispatch;
mod edges;
mod engine;
mod lives;
#[allow(dead_code, reason = "the guards use the rest of it")]
#[path = "../hosts/meanwhile.rs"]
mod meanwhile;
#[allow(dead_code, reason = "the command line's tests use the rest of it")]
#[path = "../hosts/on_disk.rs"]
mod on_disk;
mod operator;
mod place;
mod policies;
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
#[path = "../hosts/promise.rs"]
mod promise;
mod record;
mod recovery;
#[path = "../hosts/rig.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod rig;
mod rule;
mod second_look;
mod sequences;
#[path = "../hosts/server_clock.rs"]
mod server_clock;
mod stories;
mod terms;
mod told;
mod transport;
mod vendors;
mod wall_apart;
mod world;
