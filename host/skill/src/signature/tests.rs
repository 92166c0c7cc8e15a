//! Tests signatures that ring makes here for each kind of key, and some that `ssh-keygen` made.

use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};

use super::*;

const FILE: &[u8] = b"a component";

/// Makes signatures with one kind of key. Tests change the other fields.
struct Signer {
    kind: &'static str,
    key: Pair,
    flags: u8,
    namespace: &'static str,
    hash: &'static str,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl Signer {
    fn new(kind: &'static str) -> Self {
        let random = SystemRandom::new();
        let key = if kind.contains("ed25519") {
            let pair = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            Pair::Ed25519(Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap())
        } else {
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            Pair::P256(EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap())
        };
        Self { kind, key, flags: 1, namespace: SIGNATURE_NAMESPACE, hash: "sha512" }
    }

    fn is_sk(&self) -> bool {
        self.kind.starts_with("sk-")
    }

    fn public(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        put_string(&mut blob, self.kind.as_bytes());
        match &self.key {
            Pair::Ed25519(pair) => put_string(&mut blob, pair.public_key().as_ref()),
            Pair::P256(pair) => {
                put_string(&mut blob, b"nistp256");
                put_string(&mut blob, pair.public_key().as_ref());
            }
        }
        if self.is_sk() {
            put_string(&mut blob, b"ssh:");
        }
        blob
    }

    fn raw(&self, message: &[u8]) -> Vec<u8> {
        match &self.key {
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::P256(pair) => {
                let fixed = pair.sign(&SystemRandom::new(), message).unwrap();
                let mut numbers = Vec::new();
                for number in fixed.as_ref().chunks(32) {
                    // The leading zero keeps an integer positive if its first bit is set.
                    put_string(&mut numbers, &[&[0], number].concat());
                }
                numbers
            }
        }
    }

    fn sign(&self, file: &[u8]) -> Vec<u8> {
        let algorithm = if self.hash == "sha256" { &SHA256 } else { &SHA512 };
        let mut message = MAGIC.to_vec();
        for field in [self.namespace.as_bytes(), b"", self.hash.as_bytes(), digest(algorithm, file).as_ref()] {
            put_string(&mut message, field);
        }
        let tail = [&[self.flags][..], &7_u32.to_be_bytes()].concat();
        if self.is_sk() {
            let parts = [digest(&SHA256, b"ssh:"), digest(&SHA256, &message)];
            message = [parts[0].as_ref(), &tail, parts[1].as_ref()].concat();
        }
        let mut signature = Vec::new();
        put_string(&mut signature, self.kind.as_bytes());
        put_string(&mut signature, &self.raw(&message));
        if self.is_sk() {
            signature.extend(tail);
        }
        let mut blob = [MAGIC, &1_u32.to_be_bytes()].concat();
        for field in [&*self.public(), self.namespace.as_bytes(), b"", self.hash.as_bytes(), &signature] {
            put_string(&mut blob, field);
        }
        armored(&blob)
    }
}

fn armored(blob: &[u8]) -> Vec<u8> {
    let base64 = STANDARD.encode(blob);
    let lines: Vec<&str> = base64.as_bytes().chunks(70).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("{BEGIN}\n{}\n{END}\n", lines.join("\n")).into_bytes()
}

#[test]
fn each_kind_of_key_signs_and_only_the_signed_bytes_match() {
    for kind in KEY_KINDS {
        for hash in ["sha256", "sha512"] {
            let signer = Signer { hash, ..Signer::new(kind) };
            let signature = signer.sign(FILE);
            let fingerprint = verify_signature(&signature, FILE).unwrap();
            let line = format!("{kind} {} me@here", STANDARD.encode(signer.public()));
            assert_eq!(line.parse(), Ok(fingerprint));
            assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
            assert_eq!(verify_signature(&signature, b"A component"), Err(SignatureError::Mismatch(fingerprint)));
        }
    }
}

#[test]
fn security_key_must_have_been_touched() {
    for kind in ["sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"] {
        for (flags, verified) in [(0, false), (1, true), (4, false), (5, true)] {
            let signature = Signer { flags, ..Signer::new(kind) }.sign(FILE);
            let result = verify_signature(&signature, FILE);
            assert_eq!(result.is_ok(), verified, "{kind} {flags}");
            assert!(verified || result == Err(SignatureError::NotPresent));
        }
    }
}

#[test]
fn signatures_for_other_purposes_and_by_other_keys_are_refused_by_name() {
    let git = Signer { namespace: "git", ..Signer::new("ssh-ed25519") }.sign(FILE);
    let error = verify_signature(&git, FILE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the signature is for the namespace 'git', not 'patchbay-plugin'. Sign with: ssh-keygen -Y sign -n patchbay-plugin -f KEY FILE"
    );
    let md5 = Signer { hash: "md5", ..Signer::new("ssh-ed25519") }.sign(FILE);
    assert_eq!(verify_signature(&md5, FILE), Err(SignatureError::Hash("md5".to_owned())));
    // Kinds of keys that are not accepted.
    for kind in ["ssh-rsa", "ecdsa-sha2-nistp384", "webauthn-sk-ecdsa-sha2-nistp256@openssh.com", "ssh-ed25519-x"] {
        let error = verify_signature(&Signer { kind, ..Signer::new("ssh-ed25519") }.sign(FILE), FILE).unwrap_err();
        let words = format!("keys of the kind '{kind}' are not accepted; sign with one of ssh-ed25519, ");
        assert!(error.to_string().starts_with(&words), "{error}");
    }
}

#[test]
fn size_is_bounded_and_damage_is_found() {
    let signature = Signer::new("ssh-ed25519").sign(FILE);
    let padded = |size: usize| [&signature[..], &vec![b'\n'; size - signature.len()]].concat();
    assert!(verify_signature(&padded(16 << 10), FILE).is_ok());
    let large = verify_signature(&padded(17 << 10), FILE).unwrap_err();
    assert_eq!(large.to_string(), "the signature has 17408 bytes; at most 16384 are read");
    for damaged in [&b""[..], b"-----BEGIN SSH SIGNATURE-----", b"not a signature", &signature[1..], b"\xff"] {
        assert_eq!(verify_signature(damaged, FILE), Err(SignatureError::Armor));
    }
    let blob = unarmored(&signature).unwrap();
    for end in 0..blob.len() {
        assert!(matches!(verify_signature(&armored(&blob[..end]), FILE), Err(SignatureError::Malformed(_))), "{end}");
    }
    let longer = [&blob[..], b"x"].concat();
    let words = "damaged OpenSSH signature: it has bytes after its last field";
    assert_eq!(verify_signature(&armored(&longer), FILE).unwrap_err().to_string(), words);
    for at in 0..blob.len() {
        let mut changed = blob.clone();
        changed[at] ^= 1;
        assert!(verify_signature(&armored(&changed), FILE).is_err(), "byte {at}");
    }
}

/// Made by OpenSSH 9.2 with `ssh-keygen -Y sign -n patchbay-plugin`.
#[test]
fn signature_of_ssh_keygen_is_verified() {
    for (public, signature) in [
        (include_str!("tests/ed25519.pub"), include_bytes!("tests/ed25519.sig").as_slice()),
        (include_str!("tests/p256.pub"), include_bytes!("tests/p256.sig").as_slice()),
    ] {
        assert_eq!(verify_signature(signature, b"patchbay\n").ok(), public.trim().parse().ok());
    }
    let rsa = verify_signature(include_bytes!("tests/rsa.sig"), b"patchbay\n").unwrap_err();
    assert!(rsa.to_string().starts_with("keys of the kind 'ssh-rsa' are not accepted"), "{rsa}");
}
