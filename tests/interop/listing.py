"""Checks that the recorded lists of models are such as the official SDKs read.

`plugins/codecs/recordings/listing` has the pages from which the adapters make their catalogues. Each SDK asks for them, page by
page, and reads every model strictly. `patchbay provider refresh` must ask for the same pages.
"""

import os
import pathlib
import subprocess
import tempfile

import anthropic
import openai
from google import genai
from google.genai import types as genai_types

from loopback import replay
from reading import FOLDER, KEY

PATCHBAY = pathlib.Path(__file__).parents[2] / "target/debug/patchbay"


def pages(name):
    """The bytes of all pages of a list."""
    found = sorted((FOLDER / "listing").glob(f"{name}.json")) or sorted((FOLDER / "listing").glob(f"{name}.*.json"))
    assert found, f"no recording {name}"
    return [page.read_bytes() for page in found]


def of_anthropic(origin):
    client = anthropic.Anthropic(base_url=origin, api_key=KEY, max_retries=0, _strict_response_validation=True)
    models = list(client.models.list(limit=1000))
    assert all(model.capabilities and model.max_tokens for model in models)
    return [model.id for model in models]


def of_openai(origin):
    client = openai.OpenAI(base_url=origin, api_key=KEY, max_retries=0, _strict_response_validation=True)
    return [model.id for model in client.models.list()]


def of_google(origin):
    options = genai_types.HttpOptions(base_url=origin, api_version="v1beta")
    client = genai.Client(api_key=KEY, http_options=options)
    models = list(client.models.list(config={"page_size": 1000, "query_base": True}))
    assert all(model.input_token_limit and model.supported_actions for model in models)
    return [model.name.removeprefix("models/") for model in models]


# The list, the SDK that reads it, the paths of its requests without their queries, and the first model.
LISTS = (
    ("anthropic", of_anthropic, ["/v1/models", "/v1/models"], "claude-opus-7"),
    ("openai", of_openai, ["/models"], "gpt-6.2-sol"),
    ("meta", of_openai, ["/models"], "muse-spark-1.3"),
    ("vllm", of_openai, ["/models"], "Qwen/Qwen3-32B"),
    ("ollama", of_openai, ["/models"], "llama3.2:3b"),
    ("groq", of_openai, ["/models"], "openai/gpt-oss-120b"),
    ("google", of_google, ["/v1beta/models", "/v1beta/models"], "gemini-4-hydrogen"),
)

# The bundled providers that list their models, and their variables.
REFRESHED = {
    "anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "meta": "MODEL_API_KEY", "google": "GOOGLE_API_KEY",
}


def refresh(name, origin):
    """Asks for the models of a provider at `origin`. Returns what is printed."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "home/config")
        config.mkdir(parents=True)
        (config / "config.toml").write_text(f'[providers.{name}]\norigin = "{origin}"\n')
        environment = {"PATH": os.environ["PATH"], "PATCHBAY_HOME": f"{folder}/home", REFRESHED[name]: KEY}
        command = [PATCHBAY, "provider", "refresh", name]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran
    return ran.stdout


def run(report):
    for name, read, paths, first in LISTS:
        with report.case(f"list of {name}"), replay(pages(name), "application/json") as (origin, requests):
            ids = read(origin)
            assert ids[0] == first, ids
            asked = [request["path"] for request in requests]
            found = [path.partition("?")[0] for path in asked]
            assert found == paths, found
        if name not in REFRESHED:
            continue
        with report.case(f"refresh of {name}"), replay(pages(name), "application/json") as (origin, requests):
            printed = refresh(name, origin)
            assert printed == f"{name}: {len(ids)} models ({len(ids)} new)\n", printed
            found = [request["path"] for request in requests]
            assert found == asked, (found, asked)
            assert all(KEY in "".join(request["headers"].values()) for request in requests)
