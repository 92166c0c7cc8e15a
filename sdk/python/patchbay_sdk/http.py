"""HTTP requests to the hosts that the operator granted. Needs `http:HOST`, and `credential:NAME` for an `auth`.

Only https is allowed, and plain http to this machine if it is granted by name. Redirects are not followed: a 3xx is returned.
"""

import json as _json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _host, _result

_HTTP = _host.Interface("http", "http")

Headers = Union[Mapping[str, str], Iterable[tuple[str, str]]]


@dataclass(frozen=True)
class Auth:
    """A secret that the host adds to the request. The skill never sees it."""

    credential: str
    header: Optional[str] = None
    prefix: str = ""
    query: Optional[str] = None


def bearer(credential: str) -> Auth:
    """Returns an auth for the header `authorization: Bearer SECRET`."""
    return Auth(credential, header="authorization", prefix="Bearer ")


def header(credential: str, name: str, prefix: str = "") -> Auth:
    """Returns an auth for the header `NAME: PREFIX` followed by the secret."""
    return Auth(credential, header=name, prefix=prefix)


def query(credential: str, name: str) -> Auth:
    """Returns an auth for the query parameter `NAME`. The operator must allow it, because URLs end up in server logs."""
    return Auth(credential, query=name)


@dataclass(frozen=True)
class Response:
    """A response. The body is decompressed."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the status is 200 to 299."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text. Bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Returns the body as a JSON value."""
        return _json.loads(self.body)

    def header(self, name: str) -> Optional[str]:
        """Returns the first header of this name, in any case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def send(
    method: str,
    url: str,
    *,
    headers: Headers = (),
    auth: Union[Auth, Iterable[Auth]] = (),
    body: Union[bytes, str, None] = None,
    json: Any = None,
    timeout_ms: Optional[int] = None,
) -> Response:
    """Sends a request. A response with a status such as 404 is not an error.

    Args:
        headers: Without connection and length headers such as `host`, which the host sets.
        auth: Secrets to add: `bearer(...)`, `header(...)` or `query(...)`.
        json: A JSON body, instead of `body`; also sets `content-type`.
        timeout_ms: Can only shorten the remaining time of the call.
    """
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if json is not None:
        if body is not None:
            raise ValueError("a request has either body or json, not both")
        body = _result.encode(json, f"json is a {type(json).__name__}")
        if not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("content-type", "application/json"))
    request = _HTTP.record(
        "Request",
        method=_host.text(method, "method"),
        url=_host.text(url, "url"),
        headers=[_pair(name, value) for name, value in pairs],
        auth=[_auth(each) for each in ([auth] if isinstance(auth, Auth) else auth)],
        body=None if body is None else _host.data(body, "body"),
        timeout_ms=_host.optional_number(timeout_ms, "timeout_ms"),
    )
    response = _HTTP.call("send", request)
    return Response(response.status, [(pair.name, pair.value) for pair in response.headers], response.body)


def get(url: str, **options: Any) -> Response:
    """Sends a GET request, with the options of `send`."""
    return send("GET", url, **options)


def post(url: str, **options: Any) -> Response:
    """Sends a POST request, with the options of `send`."""
    return send("POST", url, **options)


def _pair(name: str, value: str) -> Any:
    return _host.pair(_host.text(name, "a header's name"), _host.text(value, f"the header {name!r}"))


def _auth(auth: Auth) -> Any:
    if (auth.header is None) == (auth.query is None):
        raise ValueError("an Auth names either a header or a query parameter: use bearer(), header() or query()")
    if auth.header is not None:
        placement = _HTTP.type("Placement_Header")(_host.pair(auth.header, auth.prefix))
    else:
        placement = _HTTP.type("Placement_Query")(auth.query)
    return _HTTP.record("Auth", credential=auth.credential, placement=placement)
