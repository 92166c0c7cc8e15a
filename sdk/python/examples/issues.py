"""HTTP with a credential. The host adds the secret to the request; the skill never sees it. SKILL.md requests:

capabilities:
  - name: http:api.example.com
    reason: reads and opens issues
  - name: credential:tracker
    reason: signs in there
"""

from typing import Any
from urllib.parse import quote, urlencode

from patchbay_sdk import Failure, http, tool

API = "https://api.example.com/v1"
SIGN_IN = http.bearer("tracker")


@tool(kind="fetch")
def open_issues(project: str, label: str | None = None) -> list[dict[str, Any]]:
    """Lists the open issues of a project, newest first.

    Args:
        project: Name of the project.
        label: Only issues with this label.
    """
    query = urlencode({"state": "open"} | ({"label": label} if label else {}))
    response = http.get(f"{API}/projects/{quote(project, safe='')}/issues?{query}", auth=SIGN_IN)
    if response.status == 404:
        raise Failure("not-found", f"no project '{project}'")
    if not response.ok:
        raise Failure("failed", f"the tracker returned {response.status}: {response.text[:200]}")
    return [{"id": issue["id"], "title": issue["title"]} for issue in response.json()]


@tool(kind="edit")
def open_issue(project: str, title: str, text: str = "") -> str:
    """Opens an issue and returns its address."""
    response = http.post(
        f"{API}/projects/{quote(project, safe='')}/issues", auth=SIGN_IN, json={"title": title, "text": text}
    )
    if not response.ok:
        raise Failure("failed", f"the tracker returned {response.status}: {response.text[:200]}")
    return str(response.json()["url"])
