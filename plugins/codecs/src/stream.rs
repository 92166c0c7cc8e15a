//! What every streaming adapter does.
