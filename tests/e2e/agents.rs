//! Agents: the tables of commands, the rules of a tree of agents, and whole plays. Sessions run in the test's own process, which
//! can therefore see all agents. Texts that need only one agent are tested with the binary.

mod capture;
mod fork;
mod gathering;
mod kill;
mod lifecycle;
mod limits;
mod mail;
mod model;
mod plays;
mod shared;
mod stopping;
mod tools;
mod tree;
