#!/usr/bin/env python3
"""Installs packages of a finished binary as users do, runs the program in each, and removes it. `make test-dist` and
`make test-dist-all` call it: run.py BINARY PART..."""

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
VERSION = "1.2.3"
POWER = "1267650600228229401496703205376"
# Every process of a test has this variable, also those that its processes start.
MARK = f"PATCHBAY_TEST_{uuid.uuid4().hex}"


def run(*command, **options):
    """Runs a command that must succeed, and returns its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def tool(name, *words, **options):
    """Runs a program of dist/, and returns the files that it names."""
    return [Path(line) for line in run(sys.executable, DIST / name, *words, **options).splitlines()]


def must(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def files(folder):
    """Returns all files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if not path.is_dir())


def marked():
    """Returns the running processes of the tests."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if MARK.encode() in (process / "environ").read_bytes() and (process / "stat").read_text().split()[2] != "Z":
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def check(command, home, environment=None):
    """Checks the installed program that `command` starts: what it prints, MCP, and how it ends."""
    environment = (environment or {"PATH": os.environ["PATH"]}) | {"PATCHBAY_HOME": str(home), MARK: "1", "TERM": "xterm"}
    options = {"env": environment, "cwd": "/"}
    must(run(*command, "--version", **options).startswith("patchbay "), "--version")
    must("\nInstallation\n" in "\n" + run(*command, "doctor", **options), "doctor")
    must(run(*command, "exec", "/calc 2^100", **options).strip() == POWER, "/calc 2^100")
    server = subprocess.Popen(command + ["mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    for message in [{"id": 1, "method": "initialize", "params": client}, {"method": "notifications/initialized"},
                    {"id": 2, "method": "tools/list"}]:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(2)]
    must(answers[0]["result"]["serverInfo"]["name"] == "patchbay", answers[0])
    names = [tool["name"] for tool in answers[1]["result"]["tools"]]
    must("calc__eval" in names, names)
    # Clients end a server in this way, so it is no failure.
    ends(server, 0)
    lines = subprocess.Popen(command + ["exec"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
    lines.stdin.write("/calc 2^100\n")
    lines.stdin.flush()
    must(lines.stdout.readline().strip() == POWER, "a line from a pipe")
    ends(lines, 143)
    for _ in range(50):
        if not marked():
            return
        time.sleep(0.1)
    sys.exit(f"failed: still running: {marked()}")


def ends(process, code):
    """Ends a process by SIGTERM."""
    process.send_signal(signal.SIGTERM)
    must(process.wait(20) == code, f"SIGTERM ended it with {process.returncode}, not {code}")


def test_bytes(work, binary, home):
    """The same input gives the same bytes, whatever the time, the folder and the umask."""
    extra = work / "extra"
    extra.mkdir()
    for name in ["patchbay.1", "patchbay.bash", "_patchbay", "patchbay.fish", "THIRD-PARTY"]:
        (extra / name).write_text(f"contents of {name}\n")
    # Enough of a program for what only reads its header.
    program = work / "program"
    program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + (183).to_bytes(2, "little") + bytes(100))
    made = []
    for umask in ["022", "077"]:
        out = work / f"bytes-{umask}"
        environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
        for name in ["archive.py", "deb.py", "wheel.py", "npm.py"]:
            command = f'umask {umask}; exec "$@"'
            run("sh", "-c", command, "sh", sys.executable, DIST / name, program, VERSION, "--out", out, "--extra", extra,
                env=environment)
        tool("image.py", program, VERSION, "--out", out, "--certificates", extra / "THIRD-PARTY", env=environment)
        made.append({name: (out / name).read_bytes() for name in files(out)})
    must(made[0].keys() == made[1].keys(), "the same files")
    must(len(made[0]) > 8, sorted(made[0]))
    for name in made[0]:
        must(made[0][name] == made[1][name], f"{name} is the same again")


def test_deb(work, binary, home):
    [deb] = tool("deb.py", binary, VERSION, "--out", work, "--compression", "gzip")
    run("dpkg-deb", "-x", deb, work / "root")
    there = files(work / "root")
    must("usr/share/man/man1/patchbay.1.gz" in there and "usr/share/doc/patchbay/copyright" in there, there)
    must("Depends" not in run("dpkg-deb", "-f", deb), "it depends on nothing")
    must(sorted(path.name for path in unpacked(deb, work)) == ["control"], "it has no scripts")
    check([work / "root/usr/bin/patchbay"], home)


def unpacked(deb, work):
    run("dpkg-deb", "-e", deb, work / "control")
    return (work / "control").iterdir()


def test_wheel(work, binary, home):
    [wheel] = tool("wheel.py", binary, VERSION, "--out", work)
    run(sys.executable, "-m", "venv", work / "venv")
    before = files(work / "venv")
    pip = [work / "venv/bin/python", "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "install", "--no-index", "--find-links", work, "patchbay-host")
    added = [name for name in files(work / "venv") if name not in before and not name.endswith(".pyc")]
    must("bin/patchbay" in added and not any(name.endswith(".py") for name in added), added)
    check([work / "venv/bin/patchbay"], home)
    run(*pip, "uninstall", "--yes", "patchbay-host")
    left = [name for name in files(work / "venv") if name not in before and not name.endswith(".pyc")]
    must(left == [], f"left: {left}")


class Registry(http.server.BaseHTTPRequestHandler):
    """An npm registry of a folder of packages."""

    def do_GET(self):
        name = self.path.strip("/").replace("%2f", "/")
        file = self.server.folder / f"{name}-{VERSION}.tgz"
        if name.startswith("files/"):
            return self.answer((self.server.folder / name[6:]).read_bytes())
        if not file.is_file():
            return self.send_error(404)
        with tarfile.open(file) as package:
            manifest = json.load(package.extractfile("package/package.json"))
        host = self.headers["Host"]
        manifest["dist"] = {"tarball": f"http://{host}/files/{file.name}"}
        whole = {"name": name, "dist-tags": {"latest": VERSION}, "versions": {VERSION: manifest}}
        return self.answer(json.dumps(whole).encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_npm(work, binary, home):
    packages = tool("npm.py", binary, VERSION, "--out", work)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.folder = work
    threading.Thread(target=server.serve_forever, daemon=True).start()
    project = work / "project"
    project.mkdir()
    environment = os.environ | {"npm_config_cache": str(work / "cache"), "npm_config_update_notifier": "false"}
    npm = ["npm", f"--registry=http://127.0.0.1:{server.server_port}", "--ignore-scripts", "--no-audit", "--no-fund"]
    run(*npm, "install", f"patchbay-host@{VERSION}", cwd=project, env=environment)
    check([project / "node_modules/.bin/patchbay"], home)
    run(*npm, "uninstall", "patchbay-host", cwd=project, env=environment)
    left = [name for name in files(project) if "patchbay" in name]
    must(left == [], f"left: {left}")
    # A platform that the registry does not have is left out, and the starter names it.
    packages[0].unlink()
    shutil.rmtree(work / "cache")
    (project / "package-lock.json").unlink(missing_ok=True)
    run(*npm, "install", f"patchbay-host@{VERSION}", cwd=project, env=environment)
    started = subprocess.run([project / "node_modules/.bin/patchbay", "--version"], capture_output=True, text=True)
    missing = packages[0].name.removesuffix(f"-{VERSION}.tgz")
    must(started.returncode == 1 and f"the npm package {missing} is not installed" in started.stderr, started)
    server.shutdown()


def chroot(root, user=None):
    """Returns the command that runs Patchbay in a root."""
    return ["chroot", *(["--userspec", f"{user}:{user}"] if user else []), str(root), "/usr/bin/patchbay"]


@contextlib.contextmanager
def system_files(root):
    """Mounts /proc in a root, as every container has it."""
    (root / "proc").mkdir(exist_ok=True)
    run("mount", "-t", "proc", "proc", root / "proc")
    try:
        yield
    finally:
        run("umount", root / "proc")


def test_debian(work, binary, home):
    """The package in a Debian of its own, installed and removed by dpkg."""
    [deb] = tool("deb.py", binary, VERSION, "--out", work, "--compression", "gzip")
    root = work / "debian"
    run("mmdebstrap", "--variant=minbase", "--mode=root", "bookworm", root)
    before = files(root)
    run("dpkg", "--root", root, "--install", deb)
    with system_files(root):
        check(chroot(root), "/root/home")
    run("dpkg", "--root", root, "--purge", "patchbay")
    shutil.rmtree(root / "root/home")
    left = [name for name in files(root) if name not in before and not name.startswith(("var/lib/dpkg", "var/log"))]
    must(left == [], f"left: {left}")


def libraries(binary, work):
    """Returns a tar file with the libraries of a binary, or None if it is static."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout
    paths = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
    if not paths:
        return []
    with tarfile.open(work / "libraries.tar", "w", dereference=True) as archive:
        for path in paths:
            archive.add(path)
    return ["--below", work / "libraries.tar"]


def test_image(work, binary, home):
    """The image, pushed to a registry, pulled, unpacked, and run as its user."""
    [layout] = tool("image.py", binary, VERSION, "--out", work, *libraries(binary, work))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = work / "registry.yml"
    settings.write_text(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {work}/registry}}}}\nhttp: {{addr: {address}}}\n")
    registry = subprocess.Popen(["docker-registry", "serve", settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(address.split(":"), 1):
                break
            time.sleep(0.1)
        name = f"docker://{address}/patchbay:{VERSION}"
        run("skopeo", "--insecure-policy", "copy", "--all", "--dest-tls-verify=false", f"oci:{layout}:{VERSION}", name)
        run("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", name, f"oci:{work}/pulled:{VERSION}")
    finally:
        registry.terminate()
        registry.wait()
    run("umoci", "unpack", "--image", f"{work}/pulled:{VERSION}", work / "bundle")
    config = json.loads((work / "bundle/config.json").read_text())["process"]
    must((config["user"]["uid"], config["args"]) == (65532, ["/usr/bin/patchbay"]), config)
    root = work / "bundle/rootfs"
    must(oct((root / "home").stat().st_mode)[-4:] == "0700" and (root / "home").stat().st_uid == 65532, "/home")
    must(oct((root / "tmp").stat().st_mode)[-4:] == "1777", "/tmp")
    environment = dict(variable.split("=", 1) for variable in config["env"])
    with system_files(root):
        check(chroot(root, 65532), "/home", environment | {"PATH": os.environ["PATH"]})


class Provider(http.server.BaseHTTPRequestHandler):
    """A server of Chat Completions that always gives the same answer."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        delta = {"choices": [{"index": 0, "delta": {"content": "Good day."}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def tls_server(work):
    """Starts a provider over TLS on loopback. Returns it and the file of its certificate."""
    key, certificate = work / "key.pem", work / "certificate.pem"
    # An authority and the server's certificate: a server must not present an authority's own.
    authority = ["-keyout", work / "ca-key.pem", "-out", certificate, "-subj", "/CN=test authority"]
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *authority)
    run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", work / "request", "-subj", "/CN=server")
    (work / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    run("openssl", "x509", "-req", "-in", work / "request", "-CA", certificate, "-CAkey", work / "ca-key.pem", "-days", "2",
        "-set_serial", "1", "-extfile", work / "names", "-out", work / "server.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "server.pem", key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, certificate


def test_empty(work, binary, home):
    """A static program in a root with nothing but /proc and /tmp: first start, skills, TLS, and what is said if they are missing."""
    root = work / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "tmp").mkdir(mode=0o777)
    shutil.copy(binary, root / "usr/bin/patchbay")
    environment = {"PATH": os.environ["PATH"], "PATCHBAY_HOME": "/tmp/home", MARK: "1"}

    def started(*words, **more):
        options = {"env": environment | more, "cwd": "/", "capture_output": True, "text": True}
        return subprocess.run([*chroot(root), *words], **options)

    without = started("exec", "/calc 2^100")
    must(without.returncode == 1 and "Mount /proc: mount -t proc proc /proc" in without.stderr, without)
    must(len(without.stderr.splitlines()) == 1, without)
    must("mount -t proc proc /proc" in started("doctor").stdout, "doctor without /proc")
    server, certificate = tls_server(work)
    with system_files(root):
        check(chroot(root), "/tmp/home")
        config = f'default_model = "local:any"\n[providers.local]\nadapter = "openai-compatible"\norigin = '
        config += f'"https://127.0.0.1:{server.server_port}/v1"\n'
        (root / "tmp/home/config/config.toml").write_text(config)
        refused = started("exec", "Hello")
        must(refused.returncode == 1 and "Install the package ca-certificates" in refused.stderr, refused)
        must("certificates: none" in started("doctor").stdout, "doctor without certificates")
        shutil.copy(certificate, root / "tmp/certificate.pem")
        answered = started("exec", "Hello", SSL_CERT_FILE="/tmp/certificate.pem")
        must((answered.returncode, answered.stdout) == (0, "Good day.\n"), answered)
    server.shutdown()


def test_busybox(work, binary, home):
    """A static program in a root with nothing but busybox."""
    root = work / "busybox"
    for folder in ["bin", "usr/bin", "tmp"]:
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    run("chroot", root, "/bin/busybox", "--install", "-s", "/bin")
    shutil.copy(binary, root / "usr/bin/patchbay")
    with system_files(root):
        check(chroot(root), "/tmp/home")


def main():
    binary, parts = Path(sys.argv[1]).resolve(), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="patchbay-dist-") as folder:
        os.chmod(folder, 0o755)
        stripped = Path(folder) / "patchbay"
        run("strip", "-o", stripped, binary)
        for part in parts:
            work, start = Path(folder) / part, time.monotonic()
            work.mkdir()
            # One home, so that components are compiled once.
            globals()[f"test_{part}"](work, stripped, Path(folder) / "home")
            print(f"{part}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"test result: {len(parts)} passed, 0 failed")


if __name__ == "__main__":
    main()
