//! How a vendor is called: when to wait, when to stop, when not to send at all.
//!
//! One noun a file, each with its configuration, its run-time state, the reasons for both, and its tests.
//! [`Policy`] puts the configurations together and validates across them; [`Gates`] holds the run-time state
//! of one client.
