"""Runs the checks against SDKs and servers of others: `make test-interop`."""

import contextlib
import sys
import time
import traceback

import reading
import talking


class Report:
    """Counts cases and prints failures."""

    def __init__(self):
        self.passed, self.names = 0, []

    @contextlib.contextmanager
    def case(self, name):
        try:
            yield
        except Exception as error:  # A case fails by whatever the SDK raises, too.
            words = str(error) if isinstance(error, AssertionError) else traceback.format_exc(limit=-3)
            self.failed(f"{name}: {words}")
        else:
            self.passed += 1

    def failed(self, words):
        self.names.append(words)
        print(f"FAILED {words}", flush=True)


def main():
    report, began = Report(), time.monotonic()
    for part in (reading, talking):
        print(f"-- {part.__doc__.splitlines()[0]}", flush=True)
        part.run(report)
    print(f"in {time.monotonic() - began:.0f} s\n{report.passed} passed, {len(report.names)} failed")
    sys.exit(1 if report.names else 0)


if __name__ == "__main__":
    main()
