//! Fetches a package from the source that the user names: a local path, an `https://` URL, or a registry.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use patchbay_core::{Code, Digest, Name, text};
use patchbay_egress::{Origin, Target, UrlError};
use patchbay_skill::{
    Fingerprint, SIGNATURE_BYTES, SignatureError, TarballError, embedded_skill_md, unpack_tarball, unpacked_folder,
    verify_signature,
};
use semver::Version;
use tempfile::TempDir;

use crate::{
    download::{DownloadError, DownloadLimits, Downloads, ExpectedFile},
    registry::{PackageRegistry, Reference, RegistryAddress, RegistryAddressError, RegistryError, SignIn},
};

/// Where a package is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageAddress {
    /// A file or folder on this machine.
    Local(PathBuf),
    /// A file to download over https, or over http from a server on this machine.
    Web(WebAddress),
    /// A repository of a registry.
    Registry(RegistryAddress),
}

/// The URL of a `.wasm` or of a `.tar.gz`. In its string form, the folder in the archive follows a `#`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress {
    url: String,
    /// The folder in the archive.
    folder: Option<String>,
    is_archive: bool,
    /// The name of the file, without `.wasm` or `.tar.gz`.
    stem: String,
}

/// Why a string is not the address of a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The URL cannot be requested. It is not shown, because it may contain a password.
    #[error("invalid URL: {0}")]
    Url(#[from] UrlError),
    /// The URL ends with neither of the two extensions.
    #[error("'{0}' is neither a .wasm nor a .tar.gz; use the URL of the file itself")]
    File(String),
    /// A folder was named (with `--path` or after `#`), but the package is not an archive.
    #[error("--path selects a folder in a .tar.gz, but {0} is not a .tar.gz")]
    NoArchive(String),
    /// The string is not the address of a package in a registry.
    #[error(transparent)]
    Registry(#[from] RegistryAddressError),
    /// The string looks like a GitHub repository.
    #[error(
        "'{0}' does not exist. If it is a repository on GitHub: git clone https://github.com/{0}, then: patchbay plugin add ./{1}"
    )]
    Repository(String, String),
}

impl FromStr for PackageAddress {
    type Err = AddressError;

    fn from_str(written: &str) -> Result<Self, AddressError> {
        if written.starts_with("oci://") {
            return Ok(Self::Registry(written.parse()?));
        }
        if written.starts_with("https://") || written.starts_with("http://") {
            return WebAddress::parse(written).map(Self::Web);
        }
        let path = PathBuf::from(written);
        match written.split_once('/') {
            Some((owner, repository)) if is_github_name(owner) && is_github_name(repository) && !path.exists() => {
                Err(AddressError::Repository(written.to_owned(), repository.to_owned()))
            }
            _ => Ok(Self::Local(path)),
        }
    }
}

fn is_github_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(is_plain) && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

impl WebAddress {
    fn parse(written: &str) -> Result<Self, AddressError> {
        let (url, folder) = written.split_once('#').map_or((written, None), |(url, folder)| (url, Some(folder)));
        let shown = || text::excerpt(url.split('?').next().unwrap_or_default(), 200);
        let target = Target::parse(url)?;
        let file = target.path().rsplit('/').next().unwrap_or_default();
        let archive = file.strip_suffix(".tar.gz").or_else(|| file.strip_suffix(".tgz"));
        let stem = archive.or_else(|| file.strip_suffix(".wasm")).ok_or_else(|| AddressError::File(shown()))?;
        let folder = folder.filter(|folder| !folder.is_empty()).map(str::to_owned);
        if folder.is_some() && archive.is_none() {
            return Err(AddressError::NoArchive(shown()));
        }
        Ok(Self { url: url.to_owned(), folder, is_archive: archive.is_some(), stem: stem.to_owned() })
    }

    /// Returns the URL of the signature: `.sig` after the file's name.
    fn signature(&self) -> String {
        match self.url.split_once('?') {
            Some((file, query)) => format!("{file}.sig?{query}"),
            None => format!("{}.sig", self.url),
        }
    }

    /// Returns the package in the downloaded file `at`, which is in `folder`.
    fn package(&self, folder: TempDir, at: PathBuf, signature: Option<Vec<u8>>) -> Result<FetchedPackage, FetchError> {
        let bytes = fs::read(&at).map_err(FetchError::io(&at))?;
        let signer = signature.as_ref().map(|signature| verify_signature(signature, &bytes)).transpose()?;
        let (path, archive) = if self.is_archive {
            let root = folder.path().join("unpacked").join(&self.stem);
            fs::create_dir_all(&root).map_err(FetchError::io(&root))?;
            unpack_tarball(&*bytes, &root)?;
            (unpacked_folder(&root, self.folder.as_deref())?, Some(at))
        } else {
            (named(folder.path(), &at, &bytes, &[&self.stem])?, None)
        };
        let found = PackageAddress::Web(self.clone()).to_string();
        Ok(FetchedPackage { path, found, signature, signer, archive, _folder: Some(folder) })
    }
}

impl PackageAddress {
    /// Returns the address of a folder in this archive, for `--path`.
    ///
    /// # Errors
    /// [`AddressError::NoArchive`].
    pub fn in_folder(self, folder: &str) -> Result<Self, AddressError> {
        match self {
            Self::Web(web) if web.is_archive => Ok(Self::Web(WebAddress { folder: Some(folder.to_owned()), ..web })),
            other => Err(AddressError::NoArchive(other.to_string())),
        }
    }

    /// Returns the part of the address that the operator's rules match: without version, digest or folder in an archive.
    pub fn source(&self) -> String {
        match self {
            Self::Local(path) => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned()
            }
            Self::Web(web) => web.url.clone(),
            Self::Registry(address) => address.repository(),
        }
    }

    /// Fetches the package. The file is compared with the digest in `options` before anything is parsed.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(&self, options: &FetchOptions) -> Result<FetchedPackage, FetchError> {
        match self {
            Self::Local(path) => local(path, options.sha256),
            Self::Web(web) => web.fetch(options.sha256).await,
            Self::Registry(address) => from_registry(address, options).await,
        }
    }

    /// Returns the package in an archive that was fetched from this address earlier. Its signature is checked again.
    pub(crate) fn reopen(&self, archive: &Path, signature: Vec<u8>) -> Result<FetchedPackage, FetchError> {
        let Self::Web(web) = self else {
            return Err(TarballError::Damaged("packages of this address are not archives".to_owned()).into());
        };
        let folder = temporary()?;
        let at = folder.path().join("download");
        let bytes = crate::inspect::read_at_most(archive, DownloadLimits::default().bytes);
        fs::write(&at, bytes.map_err(FetchError::io(archive))?).map_err(FetchError::io(&at))?;
        web.package(folder, at, Some(signature))
    }

    /// Returns the version in a registry address. Other addresses have none.
    pub fn version(&self) -> Option<String> {
        match self {
            Self::Registry(address) => match address.reference() {
                Reference::Version(version) => Some(version.to_string()),
                Reference::Digest(_) => None,
            },
            _ => None,
        }
    }

    /// Returns the address of the version `wanted`, or of the newest one. Pre-releases count if `installed` is one, or if there are
    /// no other versions. Only a registry has several versions; other addresses are returned unchanged.
    ///
    /// # Errors
    /// [`FetchError`], if the registry cannot be read or has no such version.
    pub async fn newest(
        &self,
        installed: Option<&str>,
        wanted: Option<&str>,
        sign_in: &SignIn,
    ) -> Result<Self, FetchError> {
        let Self::Registry(address) = self else { return Ok(self.clone()) };
        let registry =
            PackageRegistry::new(Downloads::new(DownloadLimits::default()), address.clone(), sign_in.clone());
        let versions = registry.versions().await?;
        let takes_pre =
            installed.and_then(|text| Version::parse(text).ok()).is_some_and(|version| !version.pre.is_empty());
        let is_wanted = |version: &&Version| match wanted {
            Some(wanted) => version.to_string() == wanted,
            None => takes_pre || version.pre.is_empty(),
        };
        let found = versions.iter().rfind(is_wanted).or(versions.last().filter(|_| wanted.is_none()));
        let missing = || match wanted {
            Some(wanted) => format!("{}:{wanted}", address.repository()),
            None => format!("a version of {}", address.repository()),
        };
        let found = found.ok_or_else(|| RegistryError::NotFound(missing()))?;
        Ok(Self::Registry(address.at(Reference::Version(found.clone()))))
    }
}

impl fmt::Display for PackageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Web(WebAddress { url, folder: None, .. }) => f.write_str(url),
            Self::Web(WebAddress { url, folder: Some(folder), .. }) => write!(f, "{url}#{folder}"),
            Self::Registry(address) => write!(f, "{address}"),
        }
    }
}

/// How to fetch a package.
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    /// The digest that the file must have (`--sha256`), if known.
    pub sha256: Option<Digest>,
    /// How to sign in to a registry.
    pub sign_in: SignIn,
}

/// A package on this machine, in a temporary folder if it was fetched. Dropping it deletes that folder.
#[derive(Debug)]
pub struct FetchedPackage {
    /// The file or folder.
    pub path: PathBuf,
    /// The package's exact address; for a registry, with the digest of the manifest.
    pub found: String,
    /// The signature, if it has one.
    pub signature: Option<Vec<u8>>,
    /// The key that signed the fetched file. `None` without a signature, and for a folder, because its signature is checked later.
    pub signer: Option<Fingerprint>,
    /// The archive that the package came in, which the signature covers.
    pub archive: Option<PathBuf>,
    _folder: Option<TempDir>,
}

/// Why a package was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The download failed.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The registry did not serve the package.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] TarballError),
    /// The server refused the request for the signature, which may or may not exist.
    #[error(
        "{origin} responded with status {status} to the request for '{file}', which hides whether the package is signed. \
         Ask the publisher to upload the signature, or to respond with 404 if there is none (on S3: let everyone list the bucket)"
    )]
    SignatureRefused {
        /// The origin that responded.
        origin: Origin,
        /// The HTTP status.
        status: u16,
        /// The name of the file with the signature.
        file: String,
    },
    /// The signature is invalid. A missing signature is not an error here.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// A digest was given for a folder, which has none.
    #[error(
        "--sha256 is the digest of a file, but '{}' is a folder. To compare the digests of its files: patchbay plugin sums {}",
        .0.display(),
        .0.display()
    )]
    FolderDigest(PathBuf),
    /// A local file cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
}

impl FetchError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Returns the stable code of the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Download(error) => error.code(),
            Self::Registry(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::SignatureRefused { .. } => Code::DownloadFailed,
            Self::Signature(_) => Code::SignatureInvalid,
            Self::FolderDigest(_) => Code::InvalidArgs,
            Self::Io { .. } => Code::FolderUnusable,
        }
    }
}

/// Reads the signature in the file at `path`; `None` if it does not exist. A pipe is refused, because opening one can
/// block forever.
pub(crate) fn read_signature(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut signature = Vec::new();
    // One byte more than allowed is enough to detect a signature that is too large.
    io::copy(&mut io::Read::take(File::open(path)?, SIGNATURE_BYTES as u64 + 1), &mut signature)?;
    Ok(Some(signature))
}

/// Opens a local package, which must be a file with the digest `sha256` if one is given. Its signature is the file `NAME.sig`
/// beside it.
fn local(path: &Path, sha256: Option<Digest>) -> Result<FetchedPackage, FetchError> {
    // A path that does not exist is reported later, when the package is read.
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let beside = PathBuf::from(format!("{}.sig", canonical.display()));
    let signature = read_signature(&beside).map_err(FetchError::io(&beside))?;
    if sha256.is_some() && canonical.is_dir() {
        return Err(FetchError::FolderDigest(path.to_owned()));
    }
    let is_read = canonical.is_file() && (signature.is_some() || sha256.is_some());
    let read = || crate::inspect::read_at_most(&canonical, DownloadLimits::default().bytes);
    let bytes = is_read.then(read).transpose().map_err(FetchError::io(&canonical))?;
    if let (Some(expected), Some(bytes)) = (sha256, &bytes) {
        let found = Digest::of(bytes);
        if found != expected {
            return Err(DownloadError::Digest { expected, found }.into());
        }
    }
    let signer = match (&signature, &bytes) {
        (Some(signature), Some(bytes)) => Some(verify_signature(signature, bytes)?),
        _ => None,
    };
    let found = canonical.to_string_lossy().into_owned();
    Ok(FetchedPackage { path: path.to_owned(), found, signature, signer, archive: None, _folder: None })
}

impl WebAddress {
    async fn fetch(&self, sha256: Option<Digest>) -> Result<FetchedPackage, FetchError> {
        let folder = temporary()?;
        let at = folder.path().join("download");
        let mut file = File::create_new(&at).map_err(FetchError::io(&at))?;
        let downloads = Downloads::new(DownloadLimits::default());
        downloads.fetch(&self.url, ExpectedFile { digest: sha256, bytes: None }, &mut file).await?;
        file.flush().map_err(FetchError::io(&at))?;
        drop(file);
        let signature = self.fetch_signature().await?;
        self.package(folder, at, signature)
    }

    /// Downloads the signature beside the file. Returns `None` only if the server reports that it does not exist.
    async fn fetch_signature(&self) -> Result<Option<Vec<u8>>, FetchError> {
        let limits = DownloadLimits { bytes: SIGNATURE_BYTES as u64, ..DownloadLimits::default() };
        let mut signature = Vec::new();
        match Downloads::new(limits).fetch(&self.signature(), ExpectedFile::default(), &mut signature).await {
            Ok(_) => Ok(Some(signature)),
            Err(DownloadError::Status { status: 404 | 410, .. }) => Ok(None),
            Err(DownloadError::Status { origin, status: status @ (401 | 403), .. }) => {
                let url = self.signature();
                let file = url.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
                Err(FetchError::SignatureRefused { origin, status, file: text::excerpt(file, 80) })
            }
            Err(DownloadError::TooLarge { .. }) => Err(SignatureError::TooLarge { bytes: SIGNATURE_BYTES + 1 }.into()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn from_registry(address: &RegistryAddress, options: &FetchOptions) -> Result<FetchedPackage, FetchError> {
    let registry =
        PackageRegistry::new(Downloads::new(DownloadLimits::default()), address.clone(), options.sign_in.clone());
    let manifest = registry.manifest(address.reference()).await?;
    if let Some(expected) = options.sha256.filter(|expected| *expected != manifest.component) {
        return Err(DownloadError::Digest { expected, found: manifest.component }.into());
    }
    let folder = temporary()?;
    let at = folder.path().join("download");
    let mut file = File::create_new(&at).map_err(FetchError::io(&at))?;
    registry.pull(&manifest, &mut file).await?;
    drop(file);
    let bytes = fs::read(&at).map_err(FetchError::io(&at))?;
    let signature = manifest.signature.map(String::into_bytes);
    let signer = signature.as_ref().map(|signature| verify_signature(signature, &bytes)).transpose()?;
    let title = manifest.title.as_deref().and_then(|title| title.strip_suffix(".wasm")).unwrap_or_default();
    let path = named(folder.path(), &at, &bytes, &[title, address.last_segment()])?;
    let found = address.at(Reference::Digest(manifest.digest)).to_string();
    Ok(FetchedPackage { path, found, signature, signer, archive: None, _folder: Some(folder) })
}

fn temporary() -> Result<TempDir, FetchError> {
    tempfile::tempdir().map_err(FetchError::io(&std::env::temp_dir()))
}

/// Renames a downloaded component to the name of its skill, otherwise to the first valid name in `names`, otherwise to `plugin`.
fn named(folder: &Path, download: &Path, component: &[u8], names: &[&str]) -> Result<PathBuf, FetchError> {
    let skill_md = embedded_skill_md(component).ok().flatten();
    let own = skill_md.as_deref().and_then(declared_name);
    let name = own.or_else(|| names.iter().find_map(|name| name.parse::<Name>().ok()));
    let name = name.map_or_else(|| "plugin".to_owned(), |name| name.to_string());
    let path = folder.join(format!("{name}.wasm"));
    fs::rename(download, &path).map_err(FetchError::io(&path))?;
    Ok(path)
}

/// Returns the `name` in the frontmatter of a SKILL.md, without checking the rest.
fn declared_name(skill_md: &str) -> Option<Name> {
    let lines = skill_md.lines().skip(1).take_while(|line| line.trim_end() != "---");
    let written = lines.into_iter().find_map(|line| line.strip_prefix("name:"))?;
    written.trim().trim_matches(['"', '\'']).parse().ok()
}

#[cfg(test)]
mod tests;
