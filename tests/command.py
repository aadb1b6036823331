"""The command line in this process, which has its imports done."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from types import SimpleNamespace
from unittest import mock

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
