//! The name of this process on record, so that an operator finds the holder of an operation. No rule reads it.

use std::sync::{Arc, LazyLock};

/// The name of the host and the id of the process, such as `web-7f9c/4711`: printable ASCII, at most [`BYTES_MAX`].
pub(crate) fn this_process() -> Arc<str> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| named(&host(), std::process::id()).into());
    Arc::clone(&NAME)
}

#[cfg(unix)]
fn host() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_owned()
}

/// Windows sets it for each process.
#[cfg(not(unix))]
fn host() -> Vec<u8> {
    std::env::var("COMPUTERNAME").unwrap_or_default().into_bytes()
}

/// Cuts the host name rather than the id: the id distinguishes the processes of a host.
fn named(host: &[u8], process: u32) -> String {
    let process = format!("/{process}");
    let host = if host.is_empty() { b"unknown" } else { host };
    let printable = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' };
    host.iter().take(BYTES_MAX - process.len()).map(printable).chain(process.chars()).collect()
}

/// The longest name, in bytes.
const BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_short_name_in_printable_ascii() {
        assert_eq!(named(b"web-7f9c", 4711), "web-7f9c/4711");
        assert_eq!(named(b"", 1), "unknown/1");
        assert_eq!(named("w\u{e9}b\n\x1b[31m".as_bytes(), 7), "w??b??[31m/7");
        let long = named(&[b'h'; 255], u32::MAX);
        assert_eq!((long.len(), long.rsplit('/').next()), (BYTES_MAX, Some("4294967295")));
        assert_eq!(this_process(), this_process());
        assert!(this_process().ends_with(&format!("/{}", std::process::id())));
    }
}
