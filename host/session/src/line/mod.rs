//! The path of a line, from the front to its outcome.
//!
//! 1. [`input`]: a front's submission. [`typed`] parses it and resolves its command, once.
//! 2. [`accept`] decides how it is handled ([`Accepted`](accept::Accepted)), before `submit` returns. A line submitted after a
//!    command that moves the view waits until its agent is known ([`moves`]).
//! 3. A line that begins a turn enters the [`queue`] of its agent ([`waiting`]); any other command enters the [`order`] of its
//!    agent's commands; a line that affects capturing or may be captured gets a ticket ([`capture`], [`capturing`]).
//! 4. [`run`] waits for earlier lines, then runs the line in its [`context`], which built-in commands receive.
//! 5. [`settle`] commits a command with its change; [`turn`] begins a turn, which `turns` runs.
//!
//! [`client`]: the editor and the tools of the client that submits the line. [`submitted`] is the handle that a front holds
//! meanwhile.

mod accept;
pub(crate) mod capture;
mod capturing;
pub(crate) mod client;
pub(crate) mod context;
pub(crate) mod input;
pub(crate) mod moves;
pub(crate) mod order;
pub(crate) mod queue;
mod run;
mod settle;
pub(crate) mod submitted;
mod turn;
pub(crate) mod typed;
mod waiting;
