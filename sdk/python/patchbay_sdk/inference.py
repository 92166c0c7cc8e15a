"""One completion by the model of the agent that runs the tool. Needs the capability `inference`."""

from . import _host

_INFERENCE = _host.Interface("inference", "inference")


def complete(prompt: str, *, system: str = "") -> str:
    """Returns the model's text. Treat it as untrusted: the prompt may have influenced it."""
    text: str = _INFERENCE.call("complete", _host.text(system, "system"), _host.text(prompt, "prompt"))
    return text
