//! Two clients of one store that name one account, and have different secrets. Where these are of two accounts, the caller
//! of one is told what became of the other's call under the same key.

use http::Method;
use sha2::{Digest, Sha256};

use crate::engine::Engine;
use crate::telemetry;
use crate::transport::Request;

/// Warns once of a second client of this process whose secret is another than that of the first. Digests are in memory,
/// beside the store's wakes, and are shown nowhere.
pub(super) fn compare(engine: &Engine) {
    let Some(digest) = digest(engine) else { return };
    let account = engine.account_path();
    if engine.wakes.has_another_secret(&account, digest) {
        telemetry::two_secrets(engine.vendor.name(), &account);
    }
}

/// `None` where there is no secret. What an adapter signs for each request is not one.
fn digest(engine: &Engine) -> Option<[u8; 32]> {
    let [get, post] = [(Method::GET, "/"), (Method::POST, "/x")].map(|(method, path)| {
        let mut url = engine.vendor.base_url().clone();
        url.set_path(path);
        let mut request = Request::new(method, url);
        engine.vendor.authorize(&mut request);
        request.headers
    });
    let mut hash = None;
    for name in engine.vendor.secret_headers() {
        let value = get.get(&name).filter(|value| post.get(&name) == Some(*value));
        if let Some(value) = value {
            let hash = hash.get_or_insert_with(Sha256::new);
            hash.update(name.as_str());
            hash.update([0]);
            hash.update(value.as_bytes());
            hash.update([0]);
        }
    }
    hash.map(|hash| hash.finalize().into())
}
