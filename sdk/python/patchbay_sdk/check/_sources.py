"""The author's modules as syntax trees."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional, Union

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# More files than any skill has.
_MODULES = 1_000
_BYTES = 4 << 20


class SourceError(Exception):
    """A file that cannot be read as Python."""


@dataclass(frozen=True)
class Imported:
    """One name in an import statement."""

    module: str
    # The name in `from module import name`; None for `import module`.
    name: Optional[str]
    # The name under which the file knows it.
    bound: str
    line: int
    is_late: bool
    # Whether it is in `try`, or under `if TYPE_CHECKING`.
    is_optional: bool


@dataclass
class Module:
    """One file."""

    # Path relative to the project.
    file: str
    # Name of the package that relative imports start from.
    package: str
    tree: ast.Module
    imports: list[Imported]

    def bound_from(self, module: str, name: str) -> set[str]:
        """Returns the names under which `name` of `module` is known in the file."""
        return {each.bound for each in self.imports if each.module == module and each.name == name}


def load(folder: str) -> list[Module]:
    """Reads `skill.py` and the modules of the project that it imports, in the order of their imports."""
    loaded: dict[str, Module] = {}
    waiting = ["skill"]
    while waiting and len(loaded) < _MODULES:
        name = waiting.pop(0)
        file = find(folder, name)
        if name in loaded or file is None:
            continue
        module = loaded[name] = _read(folder, file, name)
        for each in module.imports:
            waiting.append(each.module)
            if each.name:
                waiting.append(f"{each.module}.{each.name}")
    return list(loaded.values())


def find(folder: str, name: str) -> Optional[str]:
    """Returns the path of a module of the project, relative to it."""
    path = name.replace(".", "/")
    for candidate in (f"{path}.py", f"{path}/__init__.py"):
        if name and os.path.isfile(os.path.join(folder, candidate)):
            return candidate
    return None


def _read(folder: str, file: str, name: str) -> Module:
    try:
        with open(os.path.join(folder, file), "rb") as source:
            content = source.read(_BYTES)
        tree = ast.parse(content, file)
    except SyntaxError as error:
        shown = (error.text or "").rstrip()
        lines = [f"{file}:{error.lineno or 1}: {error.msg}", *([f"  {shown.strip()}"] if shown else [])]
        raise SourceError("\n".join(lines)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{file}: {error}") from None
    package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
    return Module(file, package, tree, list(_imports(tree, package)))


def _imports(tree: ast.Module, package: str) -> Iterator[Imported]:
    def visit(node: ast.AST, is_late: bool, is_optional: bool) -> Iterator[Imported]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield Imported(alias.name, None, bound, node.lineno, is_late, is_optional)
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([part for part in (*parts, module) if part])
            for alias in node.names:
                yield Imported(module, alias.name, alias.asname or alias.name, node.lineno, is_late, is_optional)
        is_late = is_late or isinstance(node, _FUNCTIONS)
        is_optional = is_optional or isinstance(node, ast.Try) or _is_type_checking(node)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, is_late, is_optional)

    yield from visit(tree, False, False)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yields the nodes of a function's body, without nested functions and classes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def bound_names(tree: ast.Module) -> Optional[set[str]]:
    """Returns the names that a module defines at its top. None if they cannot be known, because of `import *`."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(alias.name == "*" for alias in node.names):
                return None
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        waiting.extend(ast.iter_child_nodes(node))
    return names
