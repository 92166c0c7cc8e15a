"""Runs the checks of `patchbay acp` against clients of others: `make test-acp`; with `--serve`, those of `patchbay serve`: `make
test-serve`. Arguments name the cases to run."""

import concurrent.futures
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
from served import Bridged, Served

# Cases mostly wait.
AT_ONCE = 3
STDIO = [(part.__name__, part, part.CASES, Home) for part in (python_sdk, typescript_sdk, acpx_cli)]
SERVE = [
    ("python_sdk, WebSocket", python_sdk, python_sdk.SERVED, Served),
    ("typescript_sdk, WebSocket", typescript_sdk, typescript_sdk.CASES, Served),
    ("python_sdk, bridge", python_sdk, python_sdk.BRIDGED, Bridged),
    ("acpx_cli, bridge", acpx_cli, acpx_cli.CASES, Bridged),
]


def name(case):
    return case if isinstance(case, str) else case.__name__


def main():
    report, began = Report(), time.monotonic()
    arguments = sys.argv[1:]
    parts = SERVE if "--serve" in arguments else STDIO
    wanted = [argument for argument in arguments if argument != "--serve"]
    if not PATCHBAY.exists():
        sys.exit(f"{PATCHBAY} is not built; run: make build")
    with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = [
            pool.submit(run, report, f"{title}: {name(case)}", part, case, home_type, pathlib.Path(cache))
            for title, part, cases, home_type in parts
            for case in cases
            if not wanted or name(case) in wanted
        ]
        lines = sum(case.result() for case in running)
    print(f"{lines} lines of the binary were checked against the schema, in {time.monotonic() - began:.0f} s")
    report.end()


def run(report, title, part, case, home_type, cache):
    """Runs a case, and checks all its connections, also if it failed. Returns the number of lines of the binary."""
    lines = 0
    with report.case(title), tempfile.TemporaryDirectory() as folder:
        home = home_type(folder, cache)
        try:
            with contextlib.closing(home):
                part.run(case, home)
        finally:
            for record in home.records():
                with report.case(f"{title}, {record.stem}"):
                    lines += checks.check(record, shared=case is python_sdk.shared)
    return lines


if __name__ == "__main__":
    main()
