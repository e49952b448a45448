//! Heartbeats of dispatchers.

use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::store::Store;
use steadfast_core::store::delivery::{Beat, Heartbeat, Peer};

use super::{NOW, delivery};

/// Checks that each dispatcher gets the last heartbeat of every other one for its accounts, with its age, until
/// it expires or is withdrawn.
pub async fn check_heartbeats(store: &dyn Store) {
    let (a, b) = ("test/beats/a", "test/beats/b");
    let alone = beat(store, NOW, &[(a, "one", Some("1"))]).await;
    assert_eq!(alone, [peer(a, "one", "1", 0)], "it hears itself");
    let later = NOW.plus(Duration::from_millis(300));
    let both = beat(store, later, &[(a, "two", Some("2")), (b, "two", Some("of b"))]).await;
    assert_eq!(both, [peer(a, "one", "1", 300), peer(a, "two", "2", 0), peer(b, "two", "of b", 0)]);
    // A heartbeat for another account is not returned.
    let again = NOW.plus(Duration::from_millis(999));
    let peers = beat(store, again, &[(a, "one", Some("1'"))]).await;
    assert_eq!(peers, [peer(a, "one", "1'", 0), peer(a, "two", "2", 699)], "the last word of each");
    let at_its_end = later.plus(LASTS);
    let peers = beat(store, at_its_end, &[(a, "three", None)]).await;
    assert_eq!(peers, [peer(a, "one", "1'", 301)], "two has said nothing for as long as its word lasts");
    let peers = beat(store, at_its_end, &[(a, "one", None)]).await;
    assert_eq!(peers, [], "one has taken its word back");
    let peers = beat(store, at_its_end, &[(a, "one", Some("3"))]).await;
    assert_eq!(peers, [peer(a, "one", "3", 0)], "and is there again");
    // A heartbeat of a clock that was ahead, and was set back or died: its real time is unknown.
    let written_at = at_its_end.plus(Duration::from_secs(90_000));
    let read_at = written_at.minus(LASTS);
    beat(store, written_at, &[(a, "ahead", Some("4"))]).await;
    let peers = beat(store, read_at, &[(a, "two", None)]).await;
    assert_eq!(peers, [peer(a, "ahead", "4", 0)], "by as much as it lasts it is ahead");
    let peers = beat(store, read_at.minus(Duration::from_millis(1)), &[(a, "two", None)]).await;
    assert_eq!(peers, [], "ahead by more");
    let peers = beat(store, read_at, &[(a, "two", None)]).await;
    assert_eq!(peers, [], "it is forgotten");
    assert_eq!(beat(store, at_its_end, &[]).await, [], "nothing was asked");
}

fn peer(account: &str, dispatcher: &str, says: &str, ago_ms: u64) -> Peer {
    let (account, dispatcher, says) = (account.to_owned(), dispatcher.to_owned(), says.to_owned());
    Peer { account, dispatcher, says, ago: Duration::from_millis(ago_ms) }
}

async fn beat(store: &dyn Store, now: Timestamp, beats: &[(&str, &str, Option<&str>)]) -> Vec<Peer> {
    let beat = |(account, dispatcher, says): &(&str, &str, Option<&str>)| Beat {
        account: (*account).to_owned(),
        dispatcher: (*dispatcher).to_owned(),
        says: says.map(str::to_owned),
    };
    let heartbeat = Heartbeat { now, lasts: LASTS, beats: beats.iter().map(beat).collect() };
    let mut peers = delivery(store).heartbeat(&heartbeat).await.expect("the store works");
    peers.sort_by(|a, b| (&a.account, &a.dispatcher).cmp(&(&b.account, &b.dispatcher)));
    peers
}

const LASTS: Duration = Duration::from_secs(1);
