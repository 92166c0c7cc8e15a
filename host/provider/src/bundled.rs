/// An adapter that the binary brings along.
#[derive(Clone, Copy, Debug)]
pub struct BundledAdapter {
    /// The name of its provider.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
    /// What it says of itself, as `patchbay-bundle` heard it, so that nobody need ask: JSON with `digest`, that of the
    /// component, and `manifest`, an [`AdapterManifest`](patchbay_sandbox::adapter::AdapterManifest).
    pub description: &'static str,
}
