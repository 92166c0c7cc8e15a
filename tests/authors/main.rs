//! The steps of a plugin's author: the binary alone, an empty home, a folder far from this repository, and the
//! compilers that `plugin tools install` installs. `make test-authors` runs these tests; some only run with `make
//! test-authors-all`, and say so otherwise.

mod author;
mod journeys;
mod makefiles;
mod mistakes;
mod pages;
mod providers;
mod same;
