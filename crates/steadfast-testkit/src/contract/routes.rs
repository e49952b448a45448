//! Takes of one route alone, or of all others.

use steadfast_core::operation::record::{Claim, Part, Phase, State, Takeover, Transition, Wanted};
use steadfast_core::operation::{OperationId, RouteName};
use steadfast_core::store::Store;

use super::{LEASE, NOW, claim_at, id, transition_at, write};

/// Checks that a store and [`RouteName`] agree on which operations belong to a route, whatever its segments
/// are. If only one of the two took a segment for an id, that route would never be probed.
pub async fn check_routes(store: &dyn Store) {
    let long = "create-renewals_of:subscriptions.v";
    let forms = [
        &long[..31],
        &long[..32],
        &long[..33],
        long,
        "orders",
        "v",
        "v2",
        "v2.1",
        "v2x",
        "v.",
        "v11111111111111111111111111111111111",
        "17",
        "ch_3Mx",
        "a'7",
        "a%2Fb",
        "(a|b)*",
        "a+b$",
        "~x",
        "",
    ];
    let mut routes: Vec<String> = Vec::new();
    for form in forms {
        routes.extend([format!("POST /{form}"), format!("POST /a/{form}"), format!("POST /{form}/a")]);
    }
    routes.sort_unstable();
    routes.dedup();
    for route in &routes {
        let claim = Claim { due: Some(NOW), ..claim_at(&of(route), NOW) };
        store.claim(claim).await.expect("the store works");
    }
    let folded = RouteName::of("POST /a/orders").folded_with(&RouteName::of("POST /a/v"));
    for name in routes.iter().map(|route| RouteName::of(route)).chain(folded) {
        let (own, others): (Vec<&String>, Vec<&String>) = routes.iter().partition(|route| name.is_of(route));
        let only = Wanted { only: vec![Part::Route(name.clone())], ..Wanted::default() };
        let without = Wanted { without: vec![Part::Route(name.clone())], ..Wanted::default() };
        for (wanted, expected) in [(only, own), (without, others)] {
            let mut expected: Vec<OperationId> = expected.into_iter().map(|route| of(route)).collect();
            expected.sort();
            assert_eq!(give(store, wanted.clone(), routes.len()).await, expected, "{name}: {wanted:?}");
        }
    }
}

/// Takes operations, and leaves them again as they were.
async fn give(store: &dyn Store, wanted: Wanted, limit: usize) -> Vec<OperationId> {
    let later = NOW.plus(LEASE);
    let account = Some("test/routes/a".to_owned());
    let ask = Takeover { account, limit, wanted, ..super::takers::asking(Phase::Scheduled, later) };
    let mut given = Vec::new();
    for record in store.take(ask).await.expect("the store works") {
        let back = transition_at(record.fence, later, State::Scheduled { at: NOW });
        write(store, &record.id, Transition { attempts: 0, ..back }).await.expect("the holder may write");
        given.push(record.id);
    }
    given.sort();
    given
}

fn of(route: &str) -> OperationId {
    id(&format!("test/routes/a/{route}"), "k")
}
