//! The contract is compatible with every copy of it that was released.

use std::{fs, path::PathBuf, sync::Arc};

use patchbay_core::Digest;
use patchbay_policy::{Identity, Permits, Root};
use patchbay_sandbox::{Call, Content, Limits, Sandbox};
use patchbay_tests::{
    guest::{self, Guest},
    services,
};
use wit_component::semver_check;
use wit_parser::{PackageId, Resolve};

use crate::repository;

const PACKAGES: [&str; 2] = ["host", "skill"];

fn frozen() -> Vec<PathBuf> {
    let mut versions: Vec<_> =
        fs::read_dir(repository("wit/frozen")).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    assert!(!versions.is_empty());
    versions
}

/// Adds the packages of a frozen copy under a version of their own, so that they can stand beside the present ones.
fn add_frozen(resolve: &mut Resolve, folder: &std::path::Path) -> PackageId {
    let version = folder.file_name().unwrap().to_str().unwrap();
    let mut last = None;
    for package in PACKAGES {
        let path = folder.join(package).join(format!("{package}.wit"));
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace(&format!("@{version}"), &format!("@{version}-frozen"));
        last = Some(resolve.push_str(path, &text).unwrap());
    }
    last.unwrap()
}

#[test]
fn nothing_that_was_released_is_broken() {
    for folder in frozen() {
        let mut resolve = guest::contract();
        let now = *resolve.package_names.iter().find(|(name, _)| name.name == "skill").unwrap().1;
        let before = add_frozen(&mut resolve, &folder);
        let now = resolve.select_world(&[now], Some("skill-plugin")).unwrap();
        let before = resolve.select_world(&[before], Some("skill-plugin")).unwrap();
        if let Err(error) = semver_check(resolve, before, now) {
            panic!("wit/ breaks what was released as {}: {error:#}", folder.display());
        }
    }
}

/// The check itself would notice.
#[test]
fn a_record_that_grows_is_noticed() {
    let folder = &frozen()[0];
    let mut resolve = Resolve::default();
    let before = add_frozen(&mut resolve, folder);
    let mut grown = None;
    for package in PACKAGES {
        let text = fs::read_to_string(folder.join(package).join(format!("{package}.wit"))).unwrap();
        let text = text.replace("record link { path: string,", "record link { path: string, size: u64,");
        grown = Some(resolve.push_str(package, &text).unwrap());
    }
    let now = resolve.select_world(&[grown.unwrap()], Some("skill-plugin")).unwrap();
    let before = resolve.select_world(&[before], Some("skill-plugin")).unwrap();
    assert!(semver_check(resolve, before, now).is_err());
}

/// A component built against a frozen copy loads and answers in this build.
#[tokio::test]
async fn a_component_of_each_released_version_still_works() {
    for folder in frozen() {
        let mut resolve = Resolve::default();
        for package in PACKAGES {
            resolve.push_dir(folder.join(package)).unwrap();
        }
        let bytes = guest::component_of(&resolve, &Guest::default().wat(), "patchbay:skill/skill-plugin");
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        let digest = Digest::of(&bytes);
        let loaded = sandbox.load(digest, bytes).await.unwrap();
        assert_eq!(sandbox.describe(&loaded).await.unwrap()[0].name.as_str(), "run");
        let call = Call {
            tool: "run".to_owned(),
            input: "{\"a\":1}".to_owned(),
            attachments: Vec::new(),
            permits: Arc::new(Permits::new(
                Identity::new(Root::User, "", "x".parse().unwrap()),
                digest,
                Vec::new(),
                Vec::new(),
            )),
            services: services::nobody(),
            budget: None,
        };
        let (answer, _) = sandbox.call(&loaded, call).await;
        assert_eq!(answer.unwrap(), [Content::Text("{\"a\":1}".to_owned())]);
    }
}
