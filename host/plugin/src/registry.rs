//! Finds packages in OCI registries by version or digest, downloads them, and pushes them.
//!
//! A registry may first refuse a request and describe how to sign in. The credential is then sent to the registry itself, or to a
//! token issuer that the user has approved ([`SignIn::issuers`]), and nowhere else. Redirects are followed for blobs, as for
//! all other downloads, but not for any other request.

mod address;
mod challenge;
mod push;

use std::fmt::Write as _;

use parking_lot::Mutex;
use patchbay_core::{Code, Digest, text};
use patchbay_egress::{
    CheckedTarget, Origin, Placed, Placement, Request, Response, Scrub, Secret, SecretError, Target,
};
use patchbay_skill::{ACCEPTED_MANIFESTS, ManifestError, RegistryManifest};
use semver::Version;
use serde::Deserialize;

use self::challenge::Challenge;
pub use self::{
    address::{Reference, RegistryAddress, RegistryAddressError},
    push::Pushed,
};
use crate::download::{Download, DownloadError, Downloads, ExpectedFile, OWNER, permit};

/// Size limit of a registry's response other than a blob, in bytes.
const ANSWER_BYTES: usize = 1 << 20;
/// Maximum number of pages of a tag list, and the number of tags on one page.
const PAGES: usize = 100;
const PAGE: usize = 1000;

/// Why a registry did not serve or accept a package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The download, or a request before it, failed.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The package does not exist, or is private.
    #[error("{0} does not exist, or needs a credential to be seen")]
    NotFound(String),
    /// The registry refuses the credential, or requires one.
    #[error("{origin} {why}. To sign in, put USER:TOKEN into a credential of config.toml with origin = \"{origin}\"")]
    Unauthorized {
        /// The registry.
        origin: Origin,
        /// The refusal, worded to follow the origin in a message.
        why: &'static str,
    },
    /// The registry's tokens come from an issuer that requests may not be sent to.
    #[error("{registry} issues its tokens at {issuer}, but nothing is sent there: {source}")]
    Issuer {
        /// The registry.
        registry: Origin,
        /// The issuer's origin, or its address if that is not a URL.
        issuer: String,
        /// Why it is refused.
        source: Box<DownloadError>,
    },
    /// The credential does not have the form that registries require.
    #[error("the credential for {0} must have the form USER:TOKEN")]
    Credential(Origin),
    /// The credential or a token cannot be sent.
    #[error("the credential or token for {origin} cannot be used: {source}")]
    Secret {
        /// The origin that it was meant for.
        origin: Origin,
        /// Why it cannot be sent.
        source: SecretError,
    },
    /// The status of the response is not the expected one.
    #[error("{origin} responded with status {status}{detail}")]
    Status {
        /// The registry.
        origin: Origin,
        /// The HTTP status.
        status: u16,
        /// The reason in the response, after a `:`.
        detail: String,
    },
    /// A response that breaks the registry protocol.
    #[error("{origin} {what}")]
    Protocol {
        /// The registry.
        origin: Origin,
        /// What is wrong, as the end of a sentence.
        what: String,
    },
    /// The manifest does not describe a package.
    #[error("{address} {source}")]
    Manifest {
        /// The address of the package.
        address: String,
        /// What is wrong.
        source: ManifestError,
    },
    /// The version already exists with a different component.
    #[error(
        "{address} already exists with other contents ({there}); raise the version, because others may have \
        pinned it"
    )]
    Exists {
        /// The address of the package.
        address: String,
        /// The digest of the existing component.
        there: Digest,
    },
}

impl RegistryError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Download(error) => error.code(),
            Self::Exists { .. } => Code::VersionChanged,
            _ => Code::RegistryFailed,
        }
    }
}

/// How to sign in to a registry.
#[derive(Clone, Debug, Default)]
pub struct SignIn {
    /// The credential of the registry, `USER:TOKEN`. `None` for anonymous requests.
    pub credential: Option<Secret>,
    /// The token issuers, other than the registry itself, that the user has approved.
    pub issuers: Vec<Origin>,
}

/// One repository of a registry.
pub struct PackageRegistry {
    downloads: Downloads,
    address: RegistryAddress,
    sign_in: SignIn,
    /// The actions to request with a token.
    actions: &'static str,
    /// The authorization for the registry; `None` until the registry requests one.
    authorization: Mutex<Option<Placed>>,
}

/// A request to the registry, still without authorization.
struct RegistryCall {
    method: &'static str,
    target: CheckedTarget,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl PackageRegistry {
    /// Creates a client for the repository in `address`. Sends nothing yet.
    pub fn new(downloads: Downloads, address: RegistryAddress, sign_in: SignIn) -> Self {
        Self { downloads, address, sign_in, actions: "pull", authorization: Mutex::default() }
    }

    /// Returns the issuer of the registry's tokens, if it is another server. The user is asked before a credential is sent there.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn issuer(&self) -> Result<Option<Origin>, RegistryError> {
        let target = self.target("/v2/")?;
        let answer = self.send(self.request(&self.call("GET", target)), self.origin()).await?;
        match challenge(&answer) {
            Some(Challenge::Bearer { realm, .. }) if answer.status == 401 => {
                let origin = self.realm(&realm)?.origin().clone();
                Ok(Some(origin).filter(|origin| origin != self.origin()))
            }
            _ => Ok(None),
        }
    }

    /// Returns the manifest that `reference` names.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn manifest(&self, reference: &Reference) -> Result<RegistryManifest, RegistryError> {
        let address = self.address.at(reference.clone()).to_string();
        self.find(reference).await?.ok_or(RegistryError::NotFound(address))
    }

    /// Like [`Self::manifest`], but returns `None` if the manifest does not exist.
    async fn find(&self, reference: &Reference) -> Result<Option<RegistryManifest>, RegistryError> {
        let mut call = self.call("GET", self.target(&self.path("manifests", &tag(reference)))?);
        call.headers.push(("accept".to_owned(), ACCEPTED_MANIFESTS.to_owned()));
        let answer = self.signed_in(&call).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        self.expect(&answer, 200)?;
        let address = self.address.at(reference.clone()).to_string();
        let found = Digest::of(&answer.body);
        let declared = header(&answer, "docker-content-digest").and_then(|digest| digest.parse().ok());
        let expected = match reference {
            Reference::Digest(digest) => Some(*digest),
            Reference::Version(_) => declared,
        };
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(DownloadError::Digest { expected, found }.into());
        }
        let parsed = RegistryManifest::parse(&answer.body);
        parsed.map(Some).map_err(|source| RegistryError::Manifest { address, source })
    }

    /// Downloads the component of `manifest` into `file`. After an error, `file` may contain the beginning of it.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn pull(
        &self,
        manifest: &RegistryManifest,
        file: &mut impl std::io::Write,
    ) -> Result<Download, RegistryError> {
        let origin = self.origin();
        let limit = self.downloads.limits.bytes;
        if manifest.bytes > limit {
            return Err(DownloadError::TooLarge { origin: origin.clone(), limit }.into());
        }
        let target = self.target(&self.path("blobs", &manifest.component.to_string()))?;
        let request = self.request(&self.call("GET", target));
        let expected = ExpectedFile { digest: Some(manifest.component), bytes: Some(manifest.bytes) };
        Ok(self.downloads.fetch_from(request, origin, expected, file).await?)
    }

    /// Returns the versions in the repository, lowest first. Other tags are left out.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn versions(&self) -> Result<Vec<Version>, RegistryError> {
        #[derive(Deserialize)]
        struct List {
            tags: Option<Vec<String>>,
        }
        let mut target = self.target(&format!("/v2/{}/tags/list?n={PAGE}", self.address.path))?;
        let mut versions = Vec::new();
        for _ in 0..PAGES {
            let answer = self.signed_in(&self.call("GET", target.clone())).await?;
            if answer.status == 404 {
                return Err(RegistryError::NotFound(self.address.repository()));
            }
            self.expect(&answer, 200)?;
            let list: List = serde_json::from_slice(&answer.body)
                .map_err(|error| self.broken(format!("sent a list of tags that cannot be parsed: {error}")))?;
            versions.extend(list.tags.unwrap_or_default().iter().filter_map(|tag| address::parse_version(tag)));
            let next =
                header(&answer, "link").filter(|link| link.contains("rel=\"next\"") || link.contains("rel=next"));
            let Some(next) = next.and_then(|link| link.trim().strip_prefix('<')?.split('>').next()) else {
                versions.sort();
                versions.dedup();
                return Ok(versions);
            };
            target = self.own(&target, next)?;
        }
        Err(self.broken(format!("lists more than {PAGES} pages of tags; write the version")))
    }

    fn origin(&self) -> &Origin {
        &self.address.origin
    }

    /// Returns the path of a manifest or blob.
    fn path(&self, kind: &str, reference: &str) -> String {
        format!("/v2/{}/{kind}/{reference}", self.address.path)
    }

    fn target(&self, path: &str) -> Result<CheckedTarget, RegistryError> {
        let target = Target::parse(&format!("{}{path}", self.origin())).map_err(DownloadError::Url)?;
        self.permitted(target)
    }

    fn permitted(&self, target: Target) -> Result<CheckedTarget, RegistryError> {
        let allowed = permit(target, self.origin());
        Ok(allowed.map_err(|error| DownloadError::of(error, self.origin(), &self.downloads.limits))?)
    }

    /// Returns the target of a location in the registry's response, which must be on the registry itself.
    fn own(&self, at: &CheckedTarget, location: &str) -> Result<CheckedTarget, RegistryError> {
        let target = at.location(location).map_err(DownloadError::Url)?;
        if target.origin() != self.origin() {
            let to = target.origin().to_string();
            return Err(self.broken(format!("redirects to {to}; only blobs are fetched from elsewhere")));
        }
        self.permitted(target)
    }

    fn call(&self, method: &'static str, target: CheckedTarget) -> RegistryCall {
        RegistryCall { method, target, headers: Vec::new(), body: Vec::new() }
    }

    /// Returns the request for `call`, with the authorization if there is one yet.
    fn request(&self, call: &RegistryCall) -> Request {
        Request {
            method: call.method.to_owned(),
            headers: call.headers.clone(),
            body: call.body.clone().into(),
            verbatim: true,
            secrets: self.authorization.lock().iter().cloned().collect(),
            scrub: Scrub::new(&self.sign_in.credential),
            ..Request::get(OWNER, call.target.clone())
        }
    }

    /// Sends `call`. If the registry requests a sign-in, signs in and sends it once more.
    async fn signed_in(&self, call: &RegistryCall) -> Result<Response, RegistryError> {
        let origin = self.origin();
        let answer = self.send(self.request(call), origin).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let scope = format!("repository:{}:{}", self.address.path, self.actions);
        let why = "requires a sign-in";
        let placed = match challenge(&answer) {
            Some(Challenge::Basic) => {
                let credential = self.basic(origin)?;
                credential.ok_or(RegistryError::Unauthorized { origin: origin.clone(), why })?
            }
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, service.as_deref(), &scope).await?,
            None => return Err(self.broken("requires an unknown kind of sign-in".to_owned())),
        };
        *self.authorization.lock() = Some(placed);
        let answer = self.send(self.request(call), origin).await?;
        match answer.status {
            401 | 403 if self.sign_in.credential.is_some() => {
                Err(RegistryError::Unauthorized { origin: origin.clone(), why: "refuses the credential" })
            }
            401 | 403 => Err(RegistryError::Unauthorized { origin: origin.clone(), why }),
            _ => Ok(answer),
        }
    }

    /// Returns the credential as Basic authorization for `origin`; `None` if there is no credential.
    fn basic(&self, origin: &Origin) -> Result<Option<Placed>, RegistryError> {
        let Some(credential) = &self.sign_in.credential else { return Ok(None) };
        let secret = credential.basic().ok_or_else(|| RegistryError::Credential(self.origin().clone()))?;
        placed(secret, "Basic ", origin).map(Some)
    }

    /// Returns the target of a token issuer: the registry itself, a server that the user has approved, or a public server.
    fn realm(&self, realm: &str) -> Result<CheckedTarget, RegistryError> {
        let refused = |issuer: String, source| {
            let registry = self.origin().clone();
            RegistryError::Issuer { registry, issuer, source: Box::new(source) }
        };
        let target = Target::parse(realm).map_err(|error| refused(text::excerpt(realm, 100), error.into()))?;
        let issuer = target.origin().clone();
        let named = self.sign_in.issuers.iter().find(|agreed| **agreed == issuer).unwrap_or(self.origin());
        permit(target, named)
            .map_err(|error| refused(issuer.to_string(), DownloadError::of(error, &issuer, &self.downloads.limits)))
    }

    /// Fetches a token. Without a credential, or if the credential may not be sent to the issuer, an anonymous token is requested.
    async fn token(&self, realm: &str, service: Option<&str>, scope: &str) -> Result<Placed, RegistryError> {
        #[derive(Deserialize)]
        struct Token {
            #[serde(alias = "access_token")]
            token: String,
        }
        let mut url = format!("{realm}{}scope={}", if realm.contains('?') { '&' } else { '?' }, encoded(scope));
        if let Some(service) = service {
            let _ = write!(url, "&service={}", encoded(service));
        }
        let target = self.realm(&url)?;
        let issuer = target.origin().clone();
        let may_have = issuer == *self.origin() || self.sign_in.issuers.contains(&issuer);
        let credential = if may_have { self.basic(&issuer)? } else { None };
        let mut request = self.request(&self.call("GET", target));
        request.secrets = credential.into_iter().collect();
        // The token is read from the response, so only the credential is scrubbed from it.
        let answer = self.send(request, &issuer).await?;
        let why = match (answer.status, may_have || self.sign_in.credential.is_none()) {
            (200, _) => None,
            (401 | 403, true) => Some("refuses to issue a token"),
            (401 | 403, false) => Some("does not issue a token without the credential"),
            _ => return Err(status(&issuer, &answer)),
        };
        if let Some(why) = why {
            return Err(RegistryError::Unauthorized { origin: issuer, why });
        }
        let broken = |what: &str| RegistryError::Protocol { origin: issuer.clone(), what: what.to_owned() };
        let token: Token = serde_json::from_slice(&answer.body).map_err(|_| broken("sent no token"))?;
        placed(Secret::new(&token.token), "Bearer ", self.origin())
    }

    /// Sends a request and returns the whole response, up to [`ANSWER_BYTES`].
    async fn send(&self, request: Request, origin: &Origin) -> Result<Response, RegistryError> {
        let of = |error| DownloadError::of(error, origin, &self.downloads.limits);
        let mut answer = self.downloads.egress.open(request).await.map_err(of)?;
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(of)? {
            body.extend(piece);
            if body.len() > ANSWER_BYTES {
                let what = format!("sent a response of more than {} KiB", ANSWER_BYTES >> 10);
                return Err(RegistryError::Protocol { origin: origin.clone(), what });
            }
        }
        Ok(Response { status: answer.status, headers: answer.headers, body })
    }

    fn expect(&self, answer: &Response, wanted: u16) -> Result<(), RegistryError> {
        if answer.status == wanted { Ok(()) } else { Err(status(self.origin(), answer)) }
    }

    fn broken(&self, what: String) -> RegistryError {
        RegistryError::Protocol { origin: self.origin().clone(), what }
    }
}

fn tag(reference: &Reference) -> String {
    match reference {
        Reference::Version(version) => version.to_string(),
        Reference::Digest(digest) => digest.to_string(),
    }
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(there, _)| there == name).map(|(_, value)| &**value)
}

fn challenge(answer: &Response) -> Option<Challenge> {
    let values = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
    challenge::parse(values.map(|(_, value)| &**value))
}

/// Returns an error with the registry's own message, from a body such as `{"errors": [{"message": "…"}]}`.
fn status(origin: &Origin, answer: &Response) -> RegistryError {
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = body["errors"][0]["message"].as_str().map(|message| format!(": {}", text::excerpt(message, 200)));
    RegistryError::Status { origin: origin.clone(), status: answer.status, detail: message.unwrap_or_default() }
}

fn placed(secret: Result<Secret, SecretError>, prefix: &str, origin: &Origin) -> Result<Placed, RegistryError> {
    let secret = secret.map_err(|source| RegistryError::Secret { origin: origin.clone(), source })?;
    let placement = Placement::Header { name: "authorization".to_owned(), prefix: prefix.to_owned() };
    Ok(Placed { secret, placement, origin: origin.clone() })
}

/// Percent-encodes a value for a query.
fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
