"""The command line: in this process, which has its imports done, or in one that is killed."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest import mock

import numpy as np

from ocelad.cli import main


def run(*arguments, cwd=".", input=None, code=0):
    """What a command prints onto standard output and standard error; it must end with this code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    pipe, ends = os.pipe()
    with open(ends, "w") as file:
        file.write(input or "")
    with (
        contextlib.chdir(cwd),
        open(pipe) as given,
        mock.patch.multiple(sys, argv=["ocelad", *map(str, arguments)], stdin=given, stdout=out, stderr=err),
    ):
        try:
            main()
            ended = 0
        except SystemExit as exit:
            ended = exit.code or 0
    printed, told = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert ended == code, told
    assert "Traceback" not in told
    return SimpleNamespace(stdout=printed, stderr=told)


def kill_four_times(command, journal, cwd):
    """Start a command four times, and kill it at a random moment after the journal has grown."""
    rng = np.random.default_rng()
    for _ in range(4):
        process = subprocess.Popen(command, cwd=cwd, stderr=subprocess.DEVNULL)
        before = journal.stat().st_size if journal.exists() else 0
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if journal.exists() and journal.stat().st_size > before:
                break
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0, 0.4)))
        process.kill()
        process.wait()
