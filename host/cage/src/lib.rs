//! Runs a program in a cage: a child process, `patchbay cage`, that fences the program, watches it, and leaves no process behind.
//!
//! [`RunningProgram::start`] runs in the host and [`supervise`] in the child. An [`Order`] goes from one to the other on standard input,
//! which stays open: when it is closed, because the host stops the program or is gone, the child kills everything that it started.
//! The program's output is the child's standard output, and the child's standard error carries one [`ProgramEnd`] at the end.
//! [`Cages`] keeps a child ready that waits for its order.
//!
//! On Linux, Landlock limits files and signals, seccomp limits system calls, and namespaces protect files that may not change
//! although their folder may. [`Support`] reports which of these the machine has. On other systems programs are only watched.

mod cages;
mod environment;
mod folders;
#[cfg(target_os = "linux")]
mod linux;
mod order;
mod output;
mod probe;
mod protected;
mod running;
mod settings;
mod supervisor;
mod support;

pub use cages::Cages;
pub use environment::closed_environment;
pub use folders::{CageFolders, FolderRefusal, UserFolders};
pub use order::{FenceOrder, Order, ProgramEnd};
pub use output::{OutputPage, ProgramOutput};
pub use protected::ProtectedFiles;
pub use running::{CageProgram, RunningProgram};
pub use settings::CageSettings;
pub use supervisor::supervise;
pub use support::{Isolation, Support};
