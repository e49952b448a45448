//! Findings about policies and waits.
