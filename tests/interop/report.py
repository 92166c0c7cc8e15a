"""Counts the cases of a run and prints failures. Used by each `run.py`."""

import contextlib
import sys
import threading
import traceback


class Report:
    def __init__(self):
        self.passed, self.names, self._lock = 0, [], threading.Lock()

    @contextlib.contextmanager
    def case(self, name):
        try:
            yield
        except Exception as error:  # A case fails by whatever the SDK raises, too.
            words = str(error) if isinstance(error, AssertionError) else traceback.format_exc(limit=-3)
            self.failed(f"{name}: {words}")
        else:
            with self._lock:
                self.passed += 1

    def failed(self, words):
        self.names.append(words)
        print(f"FAILED {words}", flush=True)

    def end(self):
        """Prints the counts and ends the process."""
        print(f"{self.passed} passed, {len(self.names)} failed")
        sys.exit(1 if self.names else 0)
