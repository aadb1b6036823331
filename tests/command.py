"""Run the command line in this process, or in a process that is killed."""

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
    """Run a command in this process; return its standard output and standard error, and check its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    read_end, write_end = os.pipe()
    with open(write_end, "w") as file:
        file.write(input or "")
    with (
        contextlib.chdir(cwd),
        open(read_end) as stdin,
        mock.patch.multiple(sys, argv=["ocelad", *map(str, arguments)], stdin=stdin, stdout=out, stderr=err),
    ):
        try:
            main()
            exit_code = 0
        except SystemExit as exit:
            exit_code = exit.code or 0
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert exit_code == code, stderr
    assert "Traceback" not in stderr
    return SimpleNamespace(stdout=stdout, stderr=stderr)


def kill_four_times(command, journal, cwd):
    """Start a command four times, and kill it at a random moment after the journal has grown."""
    rng = np.random.default_rng()
    for _ in range(4):
        process = subprocess.Popen(command, cwd=cwd, stderr=subprocess.DEVNULL)
        size = journal.stat().st_size if journal.exists() else 0
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if journal.exists() and journal.stat().st_size > size:
                break
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0, 0.4)))
        process.kill()
        process.wait()
