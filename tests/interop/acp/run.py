"""Runs the checks of `patchbay acp` against clients of others: `make test-acp`. Arguments name the cases to run."""

import contextlib
import pathlib
import sys
import tempfile
import time

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

import acpx_cli
import checks
import python_sdk
import typescript_sdk
from home import PATCHBAY, Home
from report import Report


def name(case):
    return case if isinstance(case, str) else case.__name__


def main():
    report, began, lines = Report(), time.monotonic(), 0
    if not PATCHBAY.exists():
        sys.exit(f"{PATCHBAY} is not built; run: make build")
    with tempfile.TemporaryDirectory() as caches:
        for part in (python_sdk, typescript_sdk, acpx_cli):
            print(f"-- {part.__doc__.splitlines()[0]}", flush=True)
            for case in part.CASES:
                if sys.argv[1:] and name(case) not in sys.argv[1:]:
                    continue
                cache = pathlib.Path(caches) / "cache"
                with report.case(f"{part.__name__}: {name(case)}"), tempfile.TemporaryDirectory() as folder:
                    home = Home(folder, cache)
                    try:
                        part.run(case, home)
                    finally:
                        lines += sum(recorded(report, part, case, home))
                    home.keep_cache(cache)
    print(f"{lines} lines of the binary were checked against the schema, in {time.monotonic() - began:.0f} s")
    report.end()


def recorded(report, part, case, home):
    """Checks all connections of a case, also of a case that failed, whose own error comes later."""
    for record in home.records():
        with report.case(f"{part.__name__}: {name(case)}, {record.stem}"):
            yield checks.check(record)


if __name__ == "__main__":
    main()
