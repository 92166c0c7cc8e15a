#!/usr/bin/env python3
"""Installs packages of a finished binary as users do, runs the program in each, and removes it. `make test-dist` and
`make test-dist-all` call it: run.py BINARY PART..., such as debian or debian=bullseye"""

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
sys.path.insert(0, str(DIST))
import release
import servers

INSTALL = (ROOT / "docs/install.md").read_text()
# The packages of the tests have the names that the document has.
VERSION = re.search(r"patchbay-(\d+\.\d+\.\d+)-linux", INSTALL)[1]
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


def pasted(heading):
    """Returns the lines of shell below a heading of docs/install.md."""
    return INSTALL.split(f"# {heading}\n")[1].split("```sh\n")[1].split("```")[0].splitlines()


def shell(lines, folder, *before, **environment):
    """Runs lines in `folder` as a user who pasted them and says yes to each question."""
    command = [*before, "sh", "-ec", "\n".join(lines)]
    return run(*command, cwd=folder, env=os.environ | environment, input="y\n" * 9)


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


def header(work):
    """Returns files that are programs for both machines as far as their header says, and a folder for --extra."""
    extra = work / "extra"
    extra.mkdir()
    for name in ["patchbay.1", "patchbay.bash", "_patchbay", "patchbay.fish"]:
        (extra / name).write_text(f"contents of {name}\n")
    programs = []
    for number in [62, 183]:
        programs.append(work / f"program-{number}")
        programs[-1].write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + number.to_bytes(2, "little") + bytes(100))
    return programs, extra


def test_release(work, binary, home):
    """A whole release has the same bytes again, whatever the time, the folder and the umask, and each changed byte is found."""
    programs, extra = header(work)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", work / "key")
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "SIGN": str(work / "key")}
    made = []
    for umask in ["022", "077"]:
        out = work / f"out-{umask}"
        command = f'umask {umask}; exec "$@"'
        run("sh", "-c", command, "sh", DIST / "packages.sh", VERSION, out, extra, *programs, env=environment)
        made.append({name: (out / name).read_bytes() for name in files(out)})
    must(made[0].keys() == made[1].keys() and len(made[0]) == 16, sorted(made[0]))
    for name in made[0]:
        must(made[0][name] == made[1][name], f"{name} is the same again")
    (out / "allowed_signers").write_text("patchbay " + (work / "key.pub").read_text())
    checking = pasted("Checking what you downloaded")
    must("Good \"patchbay-release\" signature" in shell(checking, out), "the signature")
    for name, data in made[0].items():
        changed = bytearray(data)
        changed[len(data) // 2] ^= 1
        (out / name).write_bytes(changed)
        done = subprocess.run(["sh", "-ec", "\n".join(checking)], cwd=out, capture_output=True)
        must(done.returncode != 0, f"a changed byte in {name} is found")
        (out / name).write_bytes(data)


def test_archive(work, binary, home):
    tool("archive.py", binary, VERSION, "--out", work)
    shell(pasted("An archive"), work, HOME=str(work))
    check([work / ".local/bin/patchbay"], home)


def section(binary, name):
    """Returns the bytes of a section of an ELF file, or None."""
    data = binary.read_bytes()
    [table] = struct.unpack_from("<Q", data, 40)
    size, count, strings = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<II8x8xQQ", data, table + at * size) for at in range(count)]
    for named, _, offset, length in headers:
        begin = headers[strings][2] + named
        if data[begin : begin + len(name) + 1] == name + b"\0":
            return data[offset : offset + length]
    return None


def test_crates(work, binary, home):
    """The list that cargo-auditable put into the program and the published list name the same crates."""
    packed = section(binary, b".dep-v0")
    must(packed is not None, "the program has no list of its crates: build it with make dist")
    crates = json.loads(zlib.decompress(packed))["packages"]
    target = f"{release.machine(binary)}-unknown-linux-musl"
    # cargo-auditable counts a macro that has tests or examples as a part of the program, with its dependencies.
    metadata = run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, cwd=ROOT)
    macros = {(package["name"], package["version"]) for package in json.loads(metadata)["packages"]
              if any("proc-macro" in kind["kind"] for kind in package["targets"])}
    linked, waiting = set(), [crate for crate in crates if crate.get("root")]
    while waiting:
        crate = waiting.pop()
        name = crate["name"], crate["version"], crate["source"]
        if name not in linked and name[:2] not in macros and crate.get("kind") != "build":
            linked.add(name)
            waiting += [crates[at] for at in crate.get("dependencies", [])]
    inside = {name[:2] for name in linked if name[2] != "local"}
    run(sys.executable, DIST / "crates.py", target, work)
    bill = {(crate["name"], crate["version"]) for crate in json.loads((work / "sbom.cdx.json").read_text())["components"]}
    must(len(inside) > 100 and inside == bill, f"only in the program: {inside - bill}; only in the list: {bill - inside}")


def test_program(work, binary, home):
    """The program alone. A program for another machine runs in qemu, which only the processes of the test start by themselves."""
    command = [binary]
    machine = release.machine(binary)
    if machine != platform.machine():
        head = binary.read_bytes()[:20]
        magic = "".join(f"\\x{byte:02x}" for byte in head[:8] + bytes(8) + b"\x02\0" + head[18:])
        mask = "\\xff" * 7 + "\\x00" + "\\xff" * 8 + "\\xfe\\xff\\xff\\xff"
        rule = f":patchbay:M::{magic}:{mask}:{shutil.which(f'qemu-{machine}-static')}:F"
        folder = "/proc/sys/fs/binfmt_misc"
        register = f"mount -t binfmt_misc none {folder}; printf '%s' \"$0\" >{folder}/register"
        inner = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f'{register}; exec "$@"', rule]
        command = [*inner, binary]
    check(command, home)


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
    path = {"PATH": f"{work}/venv/bin:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    install, uninstall = pasted("pip, pipx and uv")
    shell([install], work, **path)
    added = [name for name in files(work / "venv") if name not in before and not name.endswith(".pyc")]
    must("bin/patchbay" in added and not any(name.endswith(".py") for name in added), added)
    check([work / "venv/bin/patchbay"], home)
    shell([uninstall], work, **path)
    left = [name for name in files(work / "venv") if name not in before and not name.endswith(".pyc")]
    must(left == [], f"left: {left}")


def test_npm(work, binary, home):
    packages = tool("npm.py", binary, VERSION, "--out", work)
    server = servers.started(servers.Registry)
    server.folder, server.version = work, VERSION
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
    # As the document does it, from files. The registry has none of them.
    tool("npm.py", binary, VERSION, "--out", work / "npm-files")
    server.folder = work / "nothing"
    environment = {"npm_config_prefix": str(work / "prefix"), "npm_config_cache": str(work / "cache"),
                   "npm_config_registry": f"http://127.0.0.1:{server.server_port}"}
    install, uninstall = pasted("npm")
    shell([install], work / "npm-files", **environment)
    check([work / "prefix/bin/patchbay"], home)
    real = INSTALL.split("`$(npm root --global)/")[1].split("`")[0]
    must((work / "prefix/lib/node_modules" / real).is_file(), real)
    shell([uninstall], work / "npm-files", **environment)
    left = files(work / "prefix")
    must(left == [], f"left: {left}")
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


def test_debian(work, binary, home, suite="bookworm"):
    """The package in a Debian of its own, installed and removed by apt."""
    root = work / "debian"
    run("mmdebstrap", "--variant=minbase", "--mode=root", suite, root)
    before = files(root)
    [deb] = tool("deb.py", binary, VERSION, "--out", root / "root", "--compression", "gzip")
    install, remove = pasted("Debian and Ubuntu")
    inside = ["chroot", root, "env", "-C", "/root"]
    with system_files(root):
        shell([install], "/", *inside)
        check(chroot(root), "/root/home")
        shell([remove], "/", *inside)
    shutil.rmtree(root / "root/home")
    deb.unlink()
    own = ("var/lib/dpkg", "var/log", "var/lib/apt", "var/cache")
    left = [name for name in files(root) if name not in before and not name.startswith(own)]
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
    run("tar", "-C", layout, "-cf", work / f"patchbay-{VERSION}-oci.tar", "blobs", "index.json", "oci-layout")
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
        # Without a daemon, the document's line pushes to a registry.
        push = pasted("A container image")[0].replace(f"docker-daemon:patchbay:{VERSION}", name)
        shell([push.replace("skopeo", "skopeo --insecure-policy").replace("copy", "copy --all --dest-tls-verify=false")], work)
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "server.pem", key)
    return servers.started(servers.Provider, context), certificate


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


def test_names(work, binary, home):
    """Names of providers are looked up with `search` and `ndots` of resolv.conf, as by other programs of the system."""
    (work / "resolv.conf").write_text("nameserver 127.0.53.53\nsearch first.test second.test\noptions ndots:2\n")
    names = servers.Names("models.second.test")
    names.start()
    server = servers.started(servers.Provider)
    mount = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$0" /etc/resolv.conf; exec "$@"', work / "resolv.conf"]
    searched = {"models": ["models.first.test", "models.second.test"], "models.second.test": ["models.second.test"]}
    for host, expected in searched.items():
        config = f'default_model = "local:any"\n[providers.local]\nadapter = "openai-compatible"\nallow_private = true\n'
        config += f'origin = "http://{host}:{server.server_port}/v1"\n'
        (work / "config").mkdir(exist_ok=True)
        (work / "config/config.toml").write_text(config)
        names.asked.clear()
        environment = {"PATH": os.environ["PATH"], "PATCHBAY_HOME": str(work)}
        must(run(*mount, binary, "exec", "Hello", env=environment, cwd="/") == "Good day.\n", host)
        must(list(dict.fromkeys(names.asked)) == expected, f"{host}: {names.asked}")
    server.shutdown()


def test_recipes(work, binary, home):
    """The AUR recipe, built by makepkg, installed and removed by pacman; and Ruby understands the formula."""
    programs, extra = header(work)
    (extra / "THIRD-PARTY").write_text("licences of crates\n")
    archives = tool("archive.py", programs[1], VERSION, "--out", work, "--extra", extra)
    archives += tool("archive.py", binary, VERSION, "--out", work, "--extra", extra)
    (work / "sums").write_text(run("sha256sum", *[archive.name for archive in archives], cwd=work))
    formula, recipe = tool("recipes.py", work / "sums", VERSION, "--out", work)
    must(run("ruby", "-c", formula) == "Syntax OK\n", formula)
    # makepkg finds the archive beside the recipe, downloads nothing, and refuses root.
    run("chown", "-R", "nobody", work)
    run("runuser", "-u", "nobody", "--", "env", f"HOME={work}", "makepkg", "--nodeps", cwd=work)
    [package] = work.glob("*.pkg.tar*")
    root = work / "root"
    (root / "var/lib/pacman").mkdir(parents=True)
    pacman = ["pacman", "--root", root, "--noconfirm", "--nodeps", "--nodeps"]
    run(*pacman, "--upgrade", package)
    check([root / "usr/bin/patchbay"], home)
    run(*pacman, "--remove", "patchbay-bin")
    must(not [name for name in files(root) if not name.startswith("var/")], files(root))


def main():
    binary, parts = Path(sys.argv[1]).resolve(), sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="patchbay-dist-") as folder:
        os.chmod(folder, 0o755)
        stripped = Path(folder) / "patchbay"
        # `strip` knows this machine only, and the static programs are stripped.
        if release.machine(binary) == platform.machine():
            run("strip", "-o", stripped, binary)
        else:
            shutil.copy(binary, stripped)
        for part in parts:
            work, start = Path(folder) / part, time.monotonic()
            work.mkdir()
            name, *more = part.split("=")
            # With the same home, components are compiled once.
            globals()[f"test_{name}"](work, stripped, Path(folder) / "home", *more)
            print(f"{part}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"test result: {len(parts)} passed, 0 failed")


if __name__ == "__main__":
    main()
