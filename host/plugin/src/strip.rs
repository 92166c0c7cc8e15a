//! Removes debug information from a core module.

/// Returns the module without its debug information and its name section. `None` if it has no debug information or is not a core
/// module; the module is then used unchanged.
pub(crate) fn without_debug_info(module: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    if !wasmparser::Parser::is_core_wasm(module) {
        return None;
    }
    let mut stripped = module.get(..HEADER)?.to_vec();
    let (mut at, mut found) = (HEADER, false);
    while at < module.len() {
        // A section consists of its kind, its size, and its content.
        let mut reader = wasmparser::BinaryReader::new(&module[at + 1..], 0);
        let size = reader.read_var_u32().ok()? as usize;
        let content = at + 1 + reader.original_position();
        let end = content.checked_add(size)?;
        let section = module.get(content..end)?;
        // A custom section begins with its name.
        let name = if module[at] == 0 { wasmparser::BinaryReader::new(section, 0).read_string().ok() } else { None };
        let is_debug = name.is_some_and(|name| name.starts_with(".debug_"));
        found |= is_debug;
        if !is_debug && name != Some("name") {
            stripped.extend_from_slice(module.get(at..end)?);
        }
        at = end;
    }
    found.then_some(stripped)
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{CustomSection, Module, NameMap, NameSection};

    use super::*;

    fn custom(module: &mut Module, name: &str) {
        module.section(&CustomSection { name: name.into(), data: b"data"[..].into() });
    }

    #[test]
    fn only_debug_information_is_removed() {
        let mut module = Module::new();
        custom(&mut module, "component-type:plugin");
        custom(&mut module, "producers");
        let plain = module.clone().finish();
        assert_eq!(without_debug_info(&plain), None);
        let mut names = NameSection::new();
        names.functions(&NameMap::new());
        module.section(&names);
        assert_eq!(without_debug_info(&module.clone().finish()), None, "names alone stay");
        custom(&mut module, ".debug_line");
        assert_eq!(without_debug_info(&module.finish()), Some(plain));
    }

    #[test]
    fn damaged_modules_are_left_alone() {
        for bytes in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0\0\xff\xff\xff\xff\x0f", b"\0asm\x01\0\0\0\0", b"text"] {
            assert_eq!(without_debug_info(bytes), None);
        }
    }
}
