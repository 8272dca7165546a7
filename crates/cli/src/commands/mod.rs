//! One file a command. A command reads what it was given, hands over, and prints.

pub(crate) mod config;
