"""Runs the checks against SDKs and servers of others: `make test-interop`."""

import time

import listing
import reading
import talking
from report import Report


def main():
    report, began = Report(), time.monotonic()
    for part in (reading, listing, talking):
        print(f"-- {part.__doc__.splitlines()[0]}", flush=True)
        part.run(report)
    print(f"in {time.monotonic() - began:.0f} s")
    report.end()


if __name__ == "__main__":
    main()
