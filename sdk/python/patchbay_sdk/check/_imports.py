"""Imports that the component will not have."""

import ast
import os
import sys
from typing import Optional

from ._sources import Imported, Module, find

SDK = "patchbay_sdk"
# Modules that authors reach for, and the alternatives.
_INSTEAD = {
    "requests": "use patchbay_sdk.http",
    "httpx": "use patchbay_sdk.http",
    "aiohttp": "use patchbay_sdk.http",
    "urllib3": "use patchbay_sdk.http",
    "numpy": "it is not pure Python, so it cannot be in a component",
    "pandas": "it is not pure Python, so it cannot be in a component",
    "pydantic": "it is not pure Python: use a @dataclass or a TypedDict, whose fields become the schema",
}
_LIKELY = {"storage": "kv", "store": "kv", "db": "kv", "files": "workspace", "fs": "workspace", "llm": "inference", "fetch": "http"}


def check_imports(folder: str, modules: list[Module], errors: list[str], notes: list[str]) -> None:
    """Checks that imported modules and names exist, and that they are imported while the skill is built."""
    sdk = _Sdk(os.path.join(folder, "sdk", SDK))
    early = {each.module for module in modules for each in module.imports if not each.is_late} | sdk.imports
    for module in modules:
        for each in module.imports:
            at = f"{module.file}:{each.line}"
            problem = None if each.is_optional else _missing(folder, each, sdk)
            if problem:
                errors.append(f"{at}: {problem}")
            elif each.is_late and not each.is_optional and each.module not in early and each.module.partition(".")[0] != SDK:
                notes.append(
                    f"{at}: '{each.module}' is imported in a function, and is not there when a tool runs: write the import at the "
                    "top of the file"
                )


class _Sdk:
    """The SDK of the project."""

    def __init__(self, folder: str) -> None:
        self.names: Optional[set[str]] = None
        self.imports: set[str] = set()
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            return
        files = [name for name in sorted(os.listdir(folder)) if name.endswith(".py")]
        self.names = {name[:-3] for name in files if not name.startswith("_")}
        for name in files:
            try:
                with open(os.path.join(folder, name), "rb") as source:
                    tree = ast.parse(source.read())
            except (OSError, SyntaxError, ValueError):
                continue
            for node in tree.body:
                if isinstance(node, ast.Import):
                    self.imports.update(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    self.imports.add(node.module)
                if name == "__init__.py" and isinstance(node, ast.ImportFrom):
                    self.names.update(alias.asname or alias.name for alias in node.names)


def _missing(folder: str, each: Imported, sdk: _Sdk) -> Optional[str]:
    top = each.module.partition(".")[0]
    if top == SDK:
        return _missing_in_sdk(each, sdk)
    is_known = (
        top in sys.stdlib_module_names
        or top in ("wit_world", "__future__")
        or top.startswith("componentize_py")
        or find(folder, top)
        or any(os.path.exists(os.path.join(folder, below, top)) for below in ("", "sdk"))
        or os.path.exists(os.path.join(folder, "sdk", f"{top}.py"))
    )
    if is_known or not top:
        return None
    instead = _INSTEAD.get(top, f"if it is pure Python, install it beside the SDK: pip install --target sdk {top}")
    return f"'{top}' is neither in this project nor in Python's standard library; {instead}"


def _missing_in_sdk(each: Imported, sdk: _Sdk) -> Optional[str]:
    if sdk.names is None or each.module != SDK or each.name in (None, "*") or each.name in sdk.names:
        return None
    likely = _LIKELY.get(str(each.name).lower())
    advice = f" (did you mean '{likely}'?)" if likely else ""
    public = ", ".join(sorted(name for name in sdk.names if name != "entry"))
    return f"patchbay_sdk has no '{each.name}'{advice}; it has {public}"
