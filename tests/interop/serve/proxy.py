"""Reaches the server through Caddy, configured with the Caddyfile from docs/serve.md.

The bridge connects over wss, and curl over https, once as a script with a token and once as a browser with a cookie.
"""

import json
import os
import pathlib
import subprocess

from checks import equal
from document import EXAMPLE, Bridge, Page, free_port, wait_for
from home import PATCHBAY

# Keeps Caddy to itself: no admin endpoint, no root certificate installed on the system, no listener for redirects.
ALONE = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"


def behind_caddy(home):
    port = free_port()
    host = f"localhost:{port}"
    page = Page({EXAMPLE: host, "127.0.0.1:7420": "UPSTREAM"})
    config = home.config / "config.toml"
    proxy = page.take("toml", "[serve]\nbehind_proxy")
    config.write_text(config.read_text().replace("[serve]\n", proxy))
    home.start("--open")
    upstream = home.url.split("://")[1]
    file = home.folder / "Caddyfile"
    file.write_text(ALONE + page.take("caddy", "# Caddyfile").replace("UPSTREAM", upstream))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home.folder), "XDG_DATA_HOME": str(home.folder / "caddy")}
    authority = home.folder / "caddy/caddy/pki/authorities/local/root.crt"
    with open(home.folder / "caddy.log", "w") as log:
        caddy = subprocess.Popen(["caddy", "run", "--config", file, "--adapter", "caddyfile"], env=environment, stdout=log, stderr=log)
    try:
        wait_for(authority.exists, lambda: "a certificate: " + pathlib.Path(log.name).read_text())
        curl = ["curl", "-s", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "--cacert", authority]
        bearer = ["-H", f"Authorization: Bearer {home.token}"]
        listed = subprocess.run([*curl, *bearer, f"https://{host}/v1/sessions"], capture_output=True, text=True, timeout=60)
        assert '"sessions":[]' in listed.stdout, listed
        link, code = home.started[-1].split()[-1].split("#")
        equal(link, f"https://{host}/open")
        cookie, origin = home.folder / "cookie", ["-H", f"Origin: https://{host}", "-H", "Content-Type: application/json"]
        opened = subprocess.run(
            [*curl, *origin, "-c", cookie, "-d", json.dumps({"code": code}), link], capture_output=True, text=True, timeout=60,
        )
        shown = subprocess.run([*curl, "-b", cookie, f"https://{host}/"], capture_output=True, text=True, timeout=60)
        assert "<h1>Sessions</h1>" in shown.stdout, (opened, shown)
        token, editor = home.folder / "token", home.folder / "editor"
        token.write_text(home.token)
        editor.mkdir()
        command = page.take("sh", "patchbay acp --connect").replace("--workspace app", "--workspace workspace")
        command = command.replace("~/.config/patchbay/laptop.token", str(token)).replace("patchbay", str(PATCHBAY), 1)
        bridge = Bridge(command, editor, home.environment() | {"SSL_CERT_FILE": str(authority)})
        equal(bridge.say("say Hello."), "Hello.")
        bridge.leave()
    finally:
        caddy.terminate()
        caddy.wait(30)


CASES = (behind_caddy,)
