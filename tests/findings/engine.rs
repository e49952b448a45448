//! Findings about the engine.
