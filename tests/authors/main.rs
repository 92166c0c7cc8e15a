//! The steps of a plugin author with only the binary, an empty home, a folder outside of this repository, and the compilers that
//! `plugin tools install` installs. `make test-authors` runs these tests. Some only run with `make test-authors-all`, and print a
//! note otherwise.

mod author;
mod journeys;
mod makefiles;
mod mistakes;
mod pages;
mod providers;
mod same;
