//! Files of a workspace.
