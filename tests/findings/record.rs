//! Findings about the record and its stores.
