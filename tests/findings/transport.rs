//! Findings about the transport.
