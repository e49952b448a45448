//! Accounts that one client reaches, in turn.
//!
//! A client reaches its own account and those [behind it](crate::operation::Scope::is_reached_by), such as a
//! platform's connected accounts. A take of what is due gives each of them its turn. A tenant with a million due
//! operations is taken from no more often than one with a single operation. Within a tenant, what has waited longest
//! comes first.
//!
//! Whose turn it is next each process remembers by itself. Two processes may take from the same tenant one after the
//! other, and neither passes one over.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The tenant of each account that was taken from last.
#[derive(Debug, Default)]
pub struct Tenants(Mutex<HashMap<String, String>>);

impl Tenants {
    /// Returns these tenants of `account`, in the order of their turns.
    pub fn in_turn(&self, account: &str, mut tenants: Vec<String>) -> Vec<String> {
        tenants.sort_unstable();
        if let Some(last) = self.0.lock().get(account) {
            let passed = tenants.partition_point(|tenant| tenant <= last);
            tenants.rotate_left(passed);
        }
        tenants
    }

    /// The last tenant that was taken from.
    pub fn took(&self, account: &str, tenant: &str) {
        let mut last = self.0.lock();
        match last.get_mut(account) {
            Some(last) if last == tenant => {}
            Some(last) => tenant.clone_into(last),
            None => drop(last.insert(account.to_owned(), tenant.to_owned())),
        }
    }
}

/// The range of the tenants behind an account, in the order of bytes: from after the first of these to before the
/// second.
pub fn behind(account: &str) -> (String, String) {
    // The last text before `>`, and the first one after all that begin with it.
    (format!("{account}=\u{10ffff}"), format!("{account}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_its_turn() {
        let tenants = Tenants::default();
        let all = || ["b", "a", "c"].map(str::to_owned).to_vec();
        assert_eq!(tenants.in_turn("x", all()), ["a", "b", "c"]);
        tenants.took("x", "a");
        assert_eq!(tenants.in_turn("x", all()), ["b", "c", "a"]);
        tenants.took("x", "c");
        assert_eq!(tenants.in_turn("x", all()), ["a", "b", "c"]);
        tenants.took("x", "bb");
        assert_eq!(tenants.in_turn("x", all()), ["c", "a", "b"], "one that is gone");
        assert_eq!(tenants.in_turn("y", all()), ["a", "b", "c"], "another account's turn is another");
    }

    #[test]
    fn the_accounts_behind_one_are_those_it_reaches() {
        let (after, before) = behind("test/stripe/live");
        for (tenant, is_behind) in [
            ("test/stripe/live>", true),
            ("test/stripe/live>acct_1", true),
            ("test/stripe/live", false),
            ("test/stripe/live:acct_1", false),
            ("test/stripe/live=acct_1", false),
            ("test/stripe/livewire>acct_1", false),
            ("test/stripe/live?", false),
        ] {
            let is_there = *tenant > *after && *tenant < *before;
            assert_eq!(is_there, is_behind, "{tenant}");
        }
    }
}
