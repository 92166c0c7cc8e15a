//! `bindings WIT OUT` writes the C bindings of the world `skill-plugin`; `component MODULE OUT` makes a component of the
//! module that a C compiler made with them.

use std::{env, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use wit_bindgen_core::{Files, wit_parser::Resolve};
use wit_component::ComponentEncoder;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bindings", wit, out] => bindings(Path::new(wit), Path::new(out)),
        ["component", module, out] => component(Path::new(module), Path::new(out)),
        _ => bail!("usage: guest-c-tool bindings WIT OUT | component MODULE OUT"),
    }
}

fn bindings(wit: &Path, out: &Path) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some("skill-plugin"))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, world, &mut files)?;
    fs::create_dir_all(out)?;
    for (name, contents) in files.iter() {
        let path = out.join(name);
        fs::write(&path, contents).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn component(module: &Path, out: &Path) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let component = ComponentEncoder::default().module(&bytes)?.validate(true).encode()?;
    fs::write(out, component).with_context(|| format!("cannot write {}", out.display()))
}
