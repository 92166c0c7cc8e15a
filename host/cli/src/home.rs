//! Where everything is kept: `PATCHBAY_HOME`, else the folders of the XDG specification.

use std::{env, fs, path::PathBuf};

use etcetera::{BaseStrategy as _, base_strategy::Xdg};
use patchbay_core::Code;
use patchbay_session::Paths;

use crate::Failure;

pub(crate) struct Home {
    pub(crate) paths: Paths,
}

impl Home {
    pub(crate) fn find() -> Result<Self, Failure> {
        let paths = match env::var_os("PATCHBAY_HOME").filter(|home| !home.is_empty()) {
            Some(home) => {
                let home = PathBuf::from(home);
                let home = std::path::absolute(&home).map_err(Failure::io(&home))?;
                Paths {
                    config: home.join("config"),
                    data: home.join("data"),
                    cache: home.join("cache"),
                    state: home.join("state"),
                }
            }
            None => {
                let xdg = Xdg::new().map_err(|error| {
                    Failure::new(Code::FolderUnusable, format!("there is no home folder ({error}); set PATCHBAY_HOME."))
                })?;
                let name = "patchbay";
                let state = xdg.state_dir().unwrap_or_else(|| xdg.data_dir());
                Paths {
                    config: xdg.config_dir().join(name),
                    data: xdg.data_dir().join(name),
                    cache: xdg.cache_dir().join(name),
                    state: state.join(name),
                }
            }
        };
        for folder in [&paths.config, &paths.data, &paths.cache, &paths.state] {
            private_folder(folder)?;
        }
        Ok(Self { paths })
    }
}

/// Conversations and skills' state are nobody else's to read.
fn private_folder(folder: &PathBuf) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(Failure::io(folder))
}
