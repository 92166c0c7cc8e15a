"""Stands between a client and the binary: copies standard input and output, and writes each line into a file.

Used as `wire.py NAME PROGRAM ARGUMENT…`. The file is NAME.PID.record; each of its lines is a JSON array: "agent" or "client",
which received it, and the line. It ends as the program ends, and ends the program's input if the client ends.
"""

import json
import os
import subprocess
import sys
import threading


def main():
    record = open(f"{sys.argv[1]}.{os.getpid()}.record", "ab", buffering=0)
    lock = threading.Lock()
    agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def copy(receiver, source, target):
        """Records a line before it is forwarded, so that the record has the order of cause and effect."""
        try:
            for line in source:
                with lock:
                    record.write(json.dumps([receiver, line.decode(errors="replace").rstrip("\n")]).encode() + b"\n")
                target.write(line)
                target.flush()
        except OSError:
            """The receiver has ended."""
        finally:
            try:
                target.close()
            except OSError:
                """It has."""

    threading.Thread(target=copy, args=("agent", sys.stdin.buffer, agent.stdin), daemon=True).start()
    copy("client", agent.stdout, sys.stdout.buffer)
    code = agent.wait()
    # The thread may be reading standard input, which no one closes.
    os._exit(code if code >= 0 else 1)


if __name__ == "__main__":
    main()
