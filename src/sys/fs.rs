//! Files: to come.
