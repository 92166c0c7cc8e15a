#!/usr/bin/env python3
"""Packages against programs of others: Debian's docker-registry, skopeo, oras, ssh-keygen, and Python's http.server with TLS.
`make test-packages-all` calls it: run.py BINARY."""

import contextlib
import hashlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORAS_VERSION = "0.2.43"
BCRYPT_VERSION = "5.0.0"
PASSWORD = "registry-password"


def run(*command, **options):
    """Runs a command that must succeed, and returns its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def must(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Patchbay:
    """The binary with a home of its own."""

    def __init__(self, binary, folder, environment=None, config=""):
        self.binary, self.home = Path(binary).resolve(), folder
        (folder / "config").mkdir(parents=True)
        (folder / "config/config.toml").write_text(config)
        self.environment = os.environ | {"PATCHBAY_HOME": str(folder)} | (environment or {})

    def plugin(self, *words):
        return run(self.binary, "plugin", *words, env=self.environment)

    def refused(self, code, *words):
        """Runs a command that must fail with a code, and change nothing."""
        lock = self.home / "config/packages.lock"
        before = lock.read_bytes() if lock.exists() else None
        words = [str(word) for word in (self.binary, "plugin", *words)]
        done = subprocess.run(words, capture_output=True, text=True, env=self.environment)
        must(done.returncode != 0 and f"[{code}]" in done.stderr, f"{words}: {code}, not {done.stderr}")
        must((lock.read_bytes() if lock.exists() else None) == before, f"{words} changed the lock")
        return done.stderr


@contextlib.contextmanager
def registry(folder, htpasswd=None):
    """Runs Debian's registry on a free port of loopback, and yields its host."""
    port = free_port()
    folder.mkdir()
    settings = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if htpasswd:
        settings["auth"] = {"htpasswd": {"realm": "test", "path": str(htpasswd)}}
    # JSON is YAML.
    (folder / "config.yml").write_text(json.dumps(settings))
    log = open(folder / "log", "w")
    process = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        else:
            sys.exit("the registry does not start: " + (folder / "log").read_text())
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(10)
        log.close()


@contextlib.contextmanager
def https(folder, work):
    """Serves a folder by https, and yields its origin and the file of its authority."""
    authority, key, request = work / "authority.pem", work / "server.key", work / "server.csr"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Test authority",
        "-keyout", work / "authority.key", "-out", authority)
    run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    (work / "names").write_text("subjectAltName=DNS:localhost\n")
    run("openssl", "x509", "-req", "-in", request, "-CA", authority, "-CAkey", work / "authority.key", "-CAcreateserial",
        "-days", "2", "-extfile", work / "names", "-out", work / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "server.pem", key)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words):
            super().__init__(*words, directory=str(folder))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://localhost:{server.server_port}", authority
    finally:
        server.shutdown()


def sign(key, file):
    Path(f"{file}.sig").unlink(missing_ok=True)
    run("ssh-keygen", "-q", "-Y", "sign", "-n", "patchbay-plugin", "-f", key, file)


def test_https(patchbay, work, component, key, binary):
    site = work / "site"
    site.mkdir()
    (site / "calc.wasm").write_bytes(component.read_bytes())
    sign(key, site / "calc.wasm")
    run("tar", "czf", site / "tools.tar.gz", "-C", component.parent, "notes")
    with https(site, work) as (origin, authority):
        patchbay.refused("download_failed", "add", f"{origin}/calc.wasm", "--yes")
        trusting = Patchbay(binary, work / "https", {"SSL_CERT_FILE": str(authority)})
        digest = hashlib.sha256(component.read_bytes()).hexdigest()
        out = trusting.plugin("add", f"{origin}/calc.wasm", "--rename", "calc=sums", "--sha256", digest, "--yes")
        must("signer: SHA256:" in out, out)
        trusting.plugin("add", f"{origin}/tools.tar.gz", "--path", "notes", "--name", "more", "--yes")
        trusting.refused("digest_mismatch", "add", f"{origin}/calc.wasm", "--name", "other", "--sha256", "0" * 64, "--yes")
        must("up to date" in trusting.plugin("update", "--check"), "nothing is newer")
    trusting.plugin("verify")


def test_registry(patchbay, work, component, key, python):
    sign(key, component)
    with registry(work / "open") as host:
        address = f"oci://{host}/acme/calc"
        version = patchbay.plugin("inspect", component).split("\nversion")[1].split()[0]
        must("Pushed" in patchbay.plugin("push", component, f"{address}:{version}"), "push")
        must("Already published" in patchbay.plugin("push", component, f"{address}:{version}"), "the same bytes again")
        # skopeo and oras read what was pushed.
        out = work / "skopeo"
        run("skopeo", "copy", "--src-tls-verify=false", f"docker://{host}/acme/calc:{version}", f"dir:{out}")
        digest = hashlib.sha256(component.read_bytes()).hexdigest()
        must((out / digest).read_bytes() == component.read_bytes(), "skopeo has the component")
        script = ("import oras.client, sys; c = oras.client.OrasClient(hostname=sys.argv[1], insecure=True); "
                  "print(c.pull(target=sys.argv[2], outdir=sys.argv[3]))")
        run(python, "-c", script, host, f"{host}/acme/calc:{version}", work / "oras")
        must((work / "oras/calc.wasm").read_bytes() == component.read_bytes(), "oras has the component")
        # add reads it, and what skopeo copies to another name.
        out = patchbay.plugin("add", f"{address}:{version}", "--rename", "calc=sums", "--yes")
        must("signer: SHA256:" in out, out)
        run("skopeo", "copy", "--src-tls-verify=false", "--dest-tls-verify=false", f"docker://{host}/acme/calc:{version}",
            f"docker://{host}/other/calc:{version}")
        patchbay.plugin("add", f"oci://{host}/other/calc:{version}", "--name", "other", "--rename", "calc=others", "--yes")
        # oras writes another artifact, and one of ours.
        (work / "config.json").write_text("{}")
        push = ("import oras.client, sys; c = oras.client.OrasClient(hostname=sys.argv[1], insecure=True); "
                "c.push(target=sys.argv[2], files=[sys.argv[3] + ':application/wasm'], "
                "manifest_config=sys.argv[4] + ':' + sys.argv[5], disable_path_validation=True)")
        ours = "application/vnd.wasm.config.v0+json"
        run(python, "-c", push, host, f"{host}/oras/calc:{version}", component, work / "config.json", ours)
        patchbay.plugin("add", f"oci://{host}/oras/calc:{version}", "--name", "oras", "--rename", "calc=orases", "--yes")
        run(python, "-c", push, host, f"{host}/oras/else:1.0.0", component, work / "config.json", "application/x.else")
        error = patchbay.refused("registry_failed", "add", f"oci://{host}/oras/else:1.0.0", "--yes")
        must("application/x.else, not a component" in error, error)
        # A moved tag: the same version with other bytes.
        other = component.parent / "notes.wasm"
        error = patchbay.refused("version_changed", "push", other, f"{address}:{version}")
        must("raise the version" in error, error)
        must(patchbay.plugin("update", "--check").count("up to date") == 3, "nothing is newer")
        patchbay.plugin("verify")
        tags = json.load(urllib.request.urlopen(f"http://{host}/v2/acme/calc/tags/list"))["tags"]
        must(tags == [version], tags)


def test_credentials(binary, work, component, python):
    hashed = run(python, "-c", "import bcrypt, sys; print(bcrypt.hashpw(sys.argv[1].encode(), bcrypt.gensalt(4)).decode())", PASSWORD)
    htpasswd = work / "htpasswd"
    htpasswd.write_text(f"ada:{hashed}")
    with registry(work / "closed", htpasswd) as host:
        config = f'[credentials.registry]\norigin = "http://{host}"\nenv = "REGISTRY_LOGIN"\n'
        login = {"REGISTRY_LOGIN": f"ada:{PASSWORD}"}
        patchbay = Patchbay(binary, work / "member", login, config)
        version = patchbay.plugin("inspect", component).split("\nversion")[1].split()[0]
        address = f"oci://{host}/acme/calc:{version}"
        patchbay.plugin("push", component, address)
        patchbay.plugin("add", address, "--rename", "calc=sums", "--yes")
        second = Patchbay(binary, work / "second", login, config)
        second.plugin("sync", patchbay.home / "config/packages.lock", "--yes")
        second.plugin("verify")
        for name, environment in [("stranger", {}), ("wrong", {"REGISTRY_LOGIN": "ada:another-password"})]:
            other = Patchbay(binary, work / name, environment, config)
            error = other.refused("registry_failed", "add", address, "--yes")
            must("password" not in error, error)
        for file in patchbay.home.rglob("*"):
            must(file.is_dir() or PASSWORD.encode() not in file.read_bytes(), f"{file} has the password")


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tools = work / "venv"
        run(sys.executable, "-m", "venv", tools)
        python = tools / "bin/python"
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", f"oras=={ORAS_VERSION}", f"bcrypt=={BCRYPT_VERSION}")
        plugins = work / "plugins"
        (plugins / "notes").mkdir(parents=True)
        (plugins / "notes/SKILL.md").write_text("---\nname: notes\n---\nTake notes.\n")
        component = plugins / "calc.wasm"
        for name in ["calc.wasm", "notes.wasm"]:
            (plugins / name).write_bytes((ROOT / "plugins/dist" / name).read_bytes())
        key = work / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        patchbay = Patchbay(binary, work / "home")
        for name, test in [
            ("https", lambda: test_https(patchbay, work, component, key, binary)),
            ("registry", lambda: test_registry(patchbay, work, component, key, python)),
            ("credentials", lambda: test_credentials(binary, work, component, python)),
        ]:
            test()
            print(f"ok: {name}", flush=True)


main(sys.argv[1])
