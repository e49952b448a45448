//! Edges between two rules that are right each for itself.

mod start_over;
