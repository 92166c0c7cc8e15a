//! Runs a program in a cage: a child process, `patchbay cage`, that fences the program, watches it, and leaves no process behind.
//!
//! [`RunningProgram::start`] runs in the host and [`supervise`] in the child. An [`Order`] is sent from the host to the child on
//! standard input, which stays open. When it closes, because the host stops the program or has ended, the child kills everything
//! that it started. The program's output is the child's standard output, and the child's standard error carries one [`ProgramEnd`]
//! at the end. [`Cages`] keeps a spare child that is waiting for its order.
//!
//! On Linux, the fence consists of Landlock, which limits files and signals, seccomp, which limits system calls, and namespaces,
//! which protect single files in a folder that may otherwise change. [`Support`] reports which of these the machine has. On other
//! systems, programs are only watched.

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
