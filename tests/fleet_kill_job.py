"""A durable fleet that learns a stream and acknowledges each call, forked from a process that has imported everything.

Run as a program, it reads one list of arguments per line and forks a process for each. This prints "pid ...", "note N"
and "opened N" with the note and the number of answers in the file, "learned N" after each call, "save" and "close"
before both, and "done". Then the program prints "ended ...". A kill ends the whole forked process.
"""

from __future__ import annotations

import gc
import json
import os
import sys

import numpy as np
from fleet_streams import keyed_stream, learned_at_once

# The memory and the journal are small: states go to the disk, and the journal is emptied, again and again.
MEMORY, JOURNAL_BYTES = 150_000, 30_000
MAX_CALL, CALLS_TO_SAVE = 40, 3
STREAM = keyed_stream(16_000, 120, seed=11)


def learn(path: str, n_answers: int, seed: int) -> None:
    """Learn the next ``n_answers`` of the stream in calls of random sizes; their notes are the positions after them."""
    from ocelad.fleet import Fleet

    rng = np.random.default_rng(seed)
    with Fleet(path=path, memory=MEMORY, durable=True) as fleet:
        last, n_calls = min(len(STREAM), fleet.n_answers + n_answers), 0
        _print(f"note {fleet.note or 0}")
        _print(f"opened {fleet.n_answers}")
        while fleet.n_answers < last:
            first = fleet.n_answers
            end = min(last, first + int(rng.integers(1, MAX_CALL + 1)))
            fleet.learn(*STREAM.part(first, end), note=str(end))
            _print(f"learned {fleet.n_answers}")
            n_calls += 1
            if n_calls % CALLS_TO_SAVE == 0:
                _print("save")
                fleet.save()
        _print("close")
    _print("done")


def _print(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # in one piece, also if the process is killed


def main() -> None:
    from ocelad.fleet import fleet

    fleet._JOURNAL_BYTES = JOURNAL_BYTES
    learned_at_once(STREAM.part(0, 600), memory=MEMORY)  # loads the kernels; its threads have ended after it
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                _print(f"pid {os.getpid()}")
                learn(*json.loads(line))
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _print(f"ended {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")


if __name__ == "__main__":
    main()
