//! The manifest of a package in a registry, in the CNCF's format for WebAssembly components, which `wkg` and `oras` also read and
//! write.

use std::collections::BTreeMap;

use patchbay_core::{Digest, text};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::signature::SIGNATURE_BYTES;

/// Size limit of a manifest, in bytes. A manifest with a signature has about 1,000.
pub const MANIFEST_BYTES: usize = 256 << 10;
/// The media type of a manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
const LAYER_TYPE: &str = "application/wasm";
const INDEX_TYPES: &[&str] =
    &["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
/// The media types in requests for a manifest. All but [`MANIFEST_TYPE`] are only listed to report them in an error: otherwise,
/// registries would report that nothing was found.
pub const ACCEPTED_MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";
/// The annotation that contains the signature of the layer, as `ssh-keygen` writes it.
const SIGNATURE_ANNOTATION: &str = "patchbay.signature";
const TITLE_ANNOTATION: &str = "org.opencontainers.image.title";
const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";

/// The data about a package in its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryManifest {
    /// The digest of the manifest itself.
    pub digest: Digest,
    /// The digest of the component.
    pub component: Digest,
    /// The size of the component, in bytes.
    pub bytes: u64,
    /// The file name that was pushed, such as `greet.wasm`; untrusted.
    pub title: Option<String>,
    /// The signature of the component, as `ssh-keygen` writes it; untrusted.
    pub signature: Option<String>,
}

/// Why a manifest does not describe a package. Messages are the end of a sentence that begins with its address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The manifest is too large.
    #[error("has more than {} KiB", MANIFEST_BYTES >> 10)]
    TooLarge,
    /// The manifest is not JSON with the expected fields.
    #[error("is not an OCI manifest: {0}")]
    Form(String),
    /// It is an index of manifests for several platforms.
    #[error("is an image index; write the digest of one of its manifests after '@', such as {}", .0.as_deref().unwrap_or("sha256:…"))]
    Index(Option<String>),
    /// It describes another kind of artifact.
    #[error("is {0}, not a component; expected the config {CONFIG_TYPE}, as 'patchbay plugin push' and wkg write it")]
    Kind(String),
    /// It does not have exactly one layer, or the layer has the wrong type.
    #[error("has {0}; a component is one layer of type {LAYER_TYPE}")]
    Layers(String),
    /// The digest of its layer is not a SHA-256.
    #[error("names its layer by '{0}', not by a SHA-256 digest")]
    LayerDigest(String),
    /// Its signature is too large.
    #[error("has a signature of {0} bytes; at most {SIGNATURE_BYTES} are read")]
    Signature(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenManifest {
    schema_version: u64,
    media_type: Option<String>,
    #[serde(default)]
    manifests: Vec<Value>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

impl RegistryManifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_BYTES {
            return Err(ManifestError::TooLarge);
        }
        let form = |error: serde_json::Error| ManifestError::Form(text::excerpt(&error.to_string(), 200));
        let manifest: WrittenManifest = serde_json::from_slice(bytes).map_err(form)?;
        let kind = manifest.media_type.as_deref().unwrap_or(MANIFEST_TYPE);
        if INDEX_TYPES.contains(&kind) || !manifest.manifests.is_empty() {
            let digest = manifest.manifests.first().and_then(|first| first["digest"].as_str());
            let digest = digest.filter(|digest| digest.parse::<Digest>().is_ok());
            return Err(ManifestError::Index(digest.map(str::to_owned)));
        }
        if manifest.schema_version != 2 {
            return Err(ManifestError::Form(format!("its schemaVersion is {}, not 2", manifest.schema_version)));
        }
        let config = manifest.config.map_or_else(|| "nothing".to_owned(), |config| config.media_type);
        if config != CONFIG_TYPE {
            return Err(ManifestError::Kind(text::excerpt(&config, 100)));
        }
        let [layer] = &*manifest.layers else {
            return Err(ManifestError::Layers(format!("{} layers", manifest.layers.len())));
        };
        if layer.media_type != LAYER_TYPE {
            return Err(ManifestError::Layers(format!("a layer of type {}", text::excerpt(&layer.media_type, 100))));
        }
        let component = layer.digest.parse();
        let component = component.map_err(|_| ManifestError::LayerDigest(text::excerpt(&layer.digest, 100)))?;
        let signature = manifest.annotations.get(SIGNATURE_ANNOTATION).cloned();
        if let Some(large) = signature.as_ref().map(String::len).filter(|length| *length > SIGNATURE_BYTES) {
            return Err(ManifestError::Signature(large));
        }
        let title = layer.annotations.get(TITLE_ANNOTATION).cloned();
        Ok(Self { digest: Digest::of(bytes), component, bytes: layer.size, title, signature })
    }
}

/// A component that `plugin push` sends, with its metadata.
#[derive(Clone, Debug)]
pub struct PushedComponent {
    /// The file name under which other clients store it.
    pub title: String,
    /// The component.
    pub component: Vec<u8>,
    /// The names of its imports, in order.
    pub imports: Vec<String>,
    /// The names of its exports, in order.
    pub exports: Vec<String>,
    /// Its signature, as `ssh-keygen` writes it.
    pub signature: Option<String>,
}

impl PushedComponent {
    /// Returns the config, which has the same bytes for the same component. `wkg` requires the time, which is therefore fixed.
    pub fn config(&self) -> Vec<u8> {
        let config = json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [Digest::of(&self.component)],
            "component": {"exports": self.exports, "imports": self.imports, "target": null},
        });
        config.to_string().into_bytes()
    }

    /// Returns the manifest for the tag `version`.
    pub fn manifest(&self, version: &str) -> Vec<u8> {
        let descriptor = |kind: &str, bytes: &[u8], annotations| Descriptor {
            media_type: kind.to_owned(),
            digest: Digest::of(bytes).to_string(),
            size: bytes.len() as u64,
            annotations,
        };
        let title = BTreeMap::from([(TITLE_ANNOTATION.to_owned(), self.title.clone())]);
        let mut annotations = BTreeMap::from([(VERSION_ANNOTATION, version)]);
        annotations.extend(self.signature.as_deref().map(|signature| (SIGNATURE_ANNOTATION, signature)));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(CONFIG_TYPE, &self.config(), BTreeMap::new()),
            "layers": [descriptor(LAYER_TYPE, &self.component, title)],
            "annotations": annotations,
        });
        manifest.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed() -> PushedComponent {
        PushedComponent {
            title: "greet.wasm".to_owned(),
            component: b"component".to_vec(),
            imports: vec!["patchbay:host/kv@0.1.2".to_owned()],
            exports: Vec::new(),
            signature: Some("signature".to_owned()),
        }
    }

    #[test]
    fn pushed_manifest_is_parsed() {
        let bytes = pushed().manifest("1.2.0");
        let parsed = RegistryManifest::parse(&bytes).unwrap();
        assert_eq!(
            parsed,
            RegistryManifest {
                digest: Digest::of(&bytes),
                component: Digest::of(b"component"),
                bytes: 9,
                title: Some("greet.wasm".to_owned()),
                signature: Some("signature".to_owned()),
            }
        );
        let unsigned = PushedComponent { signature: None, ..pushed() }.manifest("1.2.0");
        assert_eq!(RegistryManifest::parse(&unsigned).unwrap().signature, None);
    }

    #[test]
    fn other_manifests_are_named() {
        let whole: Value = serde_json::from_slice(&pushed().manifest("1.2.0")).unwrap();
        let changed = |pointer: &str, value: Value| {
            let mut changed = whole.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            RegistryManifest::parse(changed.to_string().as_bytes()).unwrap_err().to_string()
        };
        let digest = Digest::of(b"x");
        let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": [{"digest": digest}]});
        assert_eq!(
            RegistryManifest::parse(index.to_string().as_bytes()).unwrap_err().to_string(),
            format!("is an image index; write the digest of one of its manifests after '@', such as {digest}")
        );
        for (pointer, value, words) in [
            ("/schemaVersion", json!(1), "is not an OCI manifest: its schemaVersion is 1, not 2"),
            (
                "/config/mediaType",
                json!("application/vnd.oci.image.config.v1+json"),
                "is application/vnd.oci.image.config.v1+json, not a component; expected the config application/vnd.wasm.config.v0+json",
            ),
            ("/layers", json!([]), "has 0 layers; a component is one layer of type application/wasm"),
            ("/layers/0/mediaType", json!("text/plain"), "has a layer of type text/plain; a component is"),
            ("/layers/0/digest", json!("sha512:00"), "names its layer by 'sha512:00', not by a SHA-256 digest"),
            ("/layers/0/size", json!(-1), "is not an OCI manifest: invalid value: integer `-1`"),
            (
                "/annotations/patchbay.signature",
                json!("x".repeat(17 << 10)),
                "has a signature of 17408 bytes; at most 16384 are read",
            ),
        ] {
            let error = changed(pointer, value);
            assert!(error.starts_with(words), "{pointer}: {error}");
        }
        assert_eq!(RegistryManifest::parse(&[b' '; MANIFEST_BYTES + 1]), Err(ManifestError::TooLarge));
        assert!(matches!(RegistryManifest::parse(b"<html>"), Err(ManifestError::Form(_))));
    }
}
