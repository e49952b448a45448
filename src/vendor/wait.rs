//! How vendors ask to be left alone.
