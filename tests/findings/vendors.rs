//! Findings about vendors and fingerprints.
