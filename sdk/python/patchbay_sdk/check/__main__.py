"""`python -m patchbay_sdk.check [FOLDER]`: prints mistakes, and exits with 1 if there are any."""

import sys

from . import check

report = check(sys.argv[1] if len(sys.argv) > 1 else ".")
for note in report.notes:
    print(f"note: {note}")
for error in report.errors:
    print(f"error: {error}", file=sys.stderr)
sys.exit(1 if report.errors else 0)
