"""ocelad doctor and ocelad completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest import mock

import pytest
from command import run

from ocelad.cli import completion_words
from ocelad.engines import kernel_loading
from ocelad.engines.rice_settings import RICE_SETTINGS
from ocelad.lab.compare import GROUPS, METHODS, STREAMS
from ocelad.lab.figures import FIGURES

doctor = sys.modules["ocelad.cli.doctor"]  # the package has the command of this name
PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def package_of(requirement):
    return re.match(r"[\w-]+", requirement)[0]


def test_doctor_shows_the_installation():
    content = json.loads(run("doctor", "--json").stdout)
    assert content["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(map(package_of, PROJECT["dependencies"])) <= set(content["versions"])
    assert content["problems"] == []
    assert content["machine"]["usable cores"] >= 1
    assert content["machine"]["memory"] > 1 << 28
    assert {each["user_api"] for each in content["threads"]} >= {"blas"}
    text = run("doctor").stdout
    assert all(
        word in text for word in ("scikit-learn", "ocelad[files]", "compiles a tiny kernel", "No problems found.")
    )


def test_doctor_knows_all_extras():
    extras = PROJECT["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(extras) - {"docs", "dev"}
    for name, (_, packages) in doctor.EXTRAS.items():
        assert set(packages) <= set(map(package_of, extras[name]))


def test_doctor_shows_no_secrets(monkeypatch):
    secrets = {
        "OCELAD_SERVE_DATABASE": "postgresql://anna:pw1@host/x",
        "OCELAD_SERVE_PROXY_SECRET": "pw2",
        "OCELAD_SERVE_OIDC_CLIENT_SECRET": "pw3",
        "OCELAD_SERVE_OIDC_ISSUER": "https://bob:pw4@login.example.org",
        "OCELAD_TOKEN": "pw5",
        "SOME_PASSWORD": "pw6",
    }
    for name, value in {**secrets, "OCELAD_SERVE_FOLDER": "somewhere"}.items():
        monkeypatch.setenv(name, value)
    for output in (run("doctor").stdout, run("doctor", "--json").stdout):
        assert "OCELAD_SERVE_PROXY_SECRET" in output
        assert "somewhere" in output
        assert not re.search(r"pw\d", output)
        assert "SOME_PASSWORD" not in output


@pytest.mark.parametrize(
    ("broken", "sentence", "is_problem"),
    [
        ("compiler", "Problem: numba cannot compile (RuntimeError: no LLVM). Install versions of numba", True),
        (
            "no cache",
            "Problem: numba finds no folder for its cache of kernels (RuntimeError: cannot cache function 'hinge': no "
            "locator available for file '/x.py'). Set NUMBA_CACHE_DIR to a folder that can be written.",
            True,
        ),
        ("sklearn", "Problem: the threads cannot be examined (ModuleNotFoundError: import of sklearn halted", True),
        ("machine", "Problem: the machine cannot be examined (PermissionError: no). Install the packages again", True),
        ("cache", "is not writable. Set NUMBA_CACHE_DIR to a folder that is", True),
        ("package", "Problem: narwhals is not installed. Install it with: pip install ocelad", True),
        ("memory", "Problem: there is less than 1 GB of memory", True),
        ("kernels", "Note: the kernels are not compiled yet: `ocelad warm` compiles them", False),
        ("threads", "Note: OMP_NUM_THREADS is 4096, but only", False),
    ],
)
def test_doctor_says_what_is_wrong_and_what_to_do(monkeypatch, broken, sentence, is_problem):
    if broken == "compiler":
        monkeypatch.setattr(kernel_loading, "compile_probe", lambda: (_ for _ in ()).throw(RuntimeError("no LLVM")))
    if broken == "no cache":
        error = RuntimeError("cannot cache function 'hinge': no locator available for file '/x.py'")
        monkeypatch.setattr(kernel_loading, "compile_probe", mock.Mock(side_effect=error))
    if broken == "sklearn":
        monkeypatch.setitem(sys.modules, "sklearn", None)
    if broken == "machine":
        monkeypatch.setattr(doctor, "_find_memory", mock.Mock(side_effect=PermissionError("no")))
    if broken == "cache":
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    if broken == "package":
        monkeypatch.setattr(doctor, "_find_version", lambda name: None if name == "narwhals" else "1.0")
    if broken == "memory":
        monkeypatch.setattr(doctor, "_find_memory", lambda: (500_000_000, None))
    monkeypatch.setattr(kernel_loading, "kernels_compiled", lambda *_: broken != "kernels")
    if broken == "threads":
        monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    output = re.sub(r"\s+", " ", run("doctor", code=1 if is_problem else 0).stdout)
    assert sentence in output
    assert ("No problems found." in output) is not is_problem


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "_find_version", lambda name: None if name == "pyarrow" else "1.0")
    content = json.loads(run("doctor", "--json").stdout)
    assert content["extras"]["files"] == {"purpose": "the command line on files", "missing": ["pyarrow"]}
    assert "missing: pyarrow" in run("doctor").stdout


def test_the_words_that_shells_complete_are_all_there_are():
    assert tuple(METHODS) == completion_words.METHODS
    assert ("all", *GROUPS) == completion_words.GROUPS
    assert tuple(STREAMS) == completion_words.STREAMS
    assert tuple(FIGURES) == completion_words.FIGURES
    assert tuple(RICE_SETTINGS) == completion_words.SETTINGS


def complete(*words):
    """Return what a shell gets for a command line whose last word is incomplete."""
    environment = {
        "_OCELAD_COMPLETE": "bash_complete",
        "COMP_WORDS": "\n".join(("ocelad", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", "import sys; sys.argv = ['ocelad']; from ocelad.cli import main; main()"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tra"], ["plain,track"]),
        (["compare", "rice", "its"], []),
        (["compare", "rice", "itml"], ["plain,itml-online", "plain,itml"]),
        (["compare", "--stream", "swi"], ["plain,switching"]),
        (["compare", "--stream", "pairs."], ["file,pairs."]),
        (["plot", "a.tracker", "hi"], ["plain,history"]),
        (["figure", "re"], ["plain,regret"]),
        (["track", "--set", "max_r"], ["plain,max_rank="]),
        (["track", "pa"], ["file,pa"]),
        (["inspect", "pa"], ["file,pa"]),
        (["evaluate", "a.tracker", "--items", "it"], ["file,it"]),
        (["demo", "--out"], ["plain,--output"]),
    ],
)
def test_shells_get_words_and_files(words, found):
    assert complete(*words) == found


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_with_the_script(tmp_path):
    run("completion", "bash", "-o", tmp_path / "completions" / "ocelad")
    (tmp_path / "ocelad").write_text(f'#!/bin/sh\nexec {sys.executable} -m ocelad "$@"\n')
    (tmp_path / "ocelad").chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        source {tmp_path}/completions/ocelad
        complete -p ocelad
        COMP_WORDS=(ocelad neigh) COMP_CWORD=1
        _ocelad_completion ocelad
        echo "found: ${{COMPREPLY[*]}}"
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert "found: neighbors" in done.stdout, done.stderr


def test_completion_of_every_shell(monkeypatch):
    for shell, word in (("bash", "complete -o"), ("zsh", "#compdef ocelad"), ("fish", "complete --no-files")):
        assert word in run("completion", shell).stdout
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert "#compdef ocelad" in run("completion").stdout
    monkeypatch.setenv("SHELL", "/bin/ksh")
    assert "name a shell: bash, zsh, fish" in run("completion", code=2).stderr


@pytest.mark.parametrize("command", ["demo", "compare", "figure", "reproduce", "track", "embed", "distance", "plot"])
def test_commands_that_write_have_a_short_option(command):
    assert "-o, --output" in run(command, "--help").stdout


def test_tables_show_names_with_brackets(tmp_path):
    (tmp_path / "pairs.csv").write_text("x_a[bold],z_a[bold],similar\n1,2,1\n1,5,0\n")
    run("track", "pairs.csv", "--quiet", cwd=tmp_path)
    assert "a[bold]" in run("inspect", "pairs.tracker", cwd=tmp_path).stdout
