"""Runs the checks of `patchbay serve` that are not about its protocol: `make test-serve` and `make test-serve-all`. Arguments name the
parts."""

import contextlib
import pathlib
import sys
import tempfile

sys.path[1:1] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[1] / "acp")]

import document
import litestream
import page
import proxy
from report import Report
from served import Served

PARTS = {"document": document, "page": page, "litestream": litestream, "proxy": proxy}


def main():
    report = Report()
    with tempfile.TemporaryDirectory() as cache:
        for name in sys.argv[1:]:
            print(f"-- {PARTS[name].__doc__.splitlines()[0]}", flush=True)
            for case in PARTS[name].CASES:
                with report.case(f"{name}: {case.__name__}"), tempfile.TemporaryDirectory() as folder:
                    with contextlib.closing(Served(folder, cache)) as home:
                        case(home)
    report.end()


if __name__ == "__main__":
    main()
