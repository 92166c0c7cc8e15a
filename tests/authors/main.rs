//! What a plugin's author does: the binary alone, an empty home, a folder far from this repository, and the compilers that `plugin
//! tools install` installs. `make test-authors` runs these tests.

mod author;
mod journeys;
mod mistakes;
mod pages;
mod same;
