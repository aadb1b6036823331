"""The command line: help, errors, the demonstration."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from command import run
from PIL import Image

import ocelad
from ocelad.cli import cli
from ocelad.cli.options import name_options
from ocelad.cli.output import check_output, to_json
from ocelad.cli.pair_files import split_columns
from ocelad.cli.progress import exit_interrupted, format_duration, show_trials
from ocelad.lab.demo import Demo, scale_phases

COMMAND = [sys.executable, "-m", "ocelad"]


def without_compile_notice(text):
    """Remove the notice that kernels are being compiled, which is printed if they are not cached yet."""
    return re.sub(r"^ocelad: compiling kernels.*\n", "", text, flags=re.M)


def search_path(folder):
    """Return PYTHONPATH with a folder in front."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def run_in_process(*arguments, cwd=None, **environment):
    """Run a command in a separate process."""
    result = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=600,  # compiling the kernels can take minutes on a busy machine
        check=False,
    )
    result.stderr = without_compile_notice(result.stderr)
    return result


@pytest.mark.parametrize(
    "statement", ["import ocelad", "import ocelad.cli; ocelad.cli.cli(['--help'], standalone_mode=False)"]
)
def test_heavy_packages_are_imported_only_when_used(statement):
    heavy = "numpy", "scipy", "sklearn", "numba", "matplotlib", "rich"
    check = f"import sys; {statement}; print([name for name in {heavy!r} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"


def test_every_public_name_exists():
    for name in ocelad.__all__:
        assert getattr(ocelad, name) is not None
    assert set(ocelad.__all__) <= set(dir(ocelad))
    with pytest.raises(AttributeError, match="no attribute 'MetricTraker'"):
        _ = ocelad.MetricTraker


def all_commands(group=cli, prefix=()):
    for name, command in group.commands.items():
        yield (*prefix, name), command
        if isinstance(command, click.Group):
            yield from all_commands(command, (*prefix, name))


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in all_commands()])
def test_every_command_has_help_with_an_example(path, command):
    text = run(*path, "--help").stdout
    assert re.search(rf"Examples?:\n +ocelad {path[0]}\b", text)
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))
    assert path[0] in run("--help").stdout


@pytest.mark.parametrize("command", [command for path, command in all_commands() if not path[1:]], ids=lambda c: c.name)
def test_examples_of_the_help_are_accepted(command):
    """The options of each example exist and have accepted values."""
    for line in re.findall(r"^ +(?:zcat \S+ \| )?(ocelad .*?)(?:  +.*)?$", command.help, re.M):
        arguments = shlex.split(line.partition(" > ")[0].replace("$(date +%F)", "today"))[1:]
        chosen = cli
        while isinstance(chosen, click.Group) and arguments:
            chosen = chosen.commands[arguments.pop(0)]
        context = chosen.make_context("example", arguments, resilient_parsing=True)
        assert not context.args


def test_version():
    assert run("--version").stdout.strip() == f"ocelad, version {ocelad.__version__}"


def test_warm_compiles_the_kernels():
    result = run("warm")
    assert re.fullmatch(r"The kernels are compiled \([\d.]+ s\)\.\n", result.stdout)
    assert without_compile_notice(result.stderr) == ""


@pytest.mark.parametrize(
    ("package", "extra"), [("fastapi", "serve"), ("uvicorn.config", "serve"), ("httpx", "client"), ("pandas", None)]
)
def test_a_missing_package_names_its_extra(monkeypatch, package, extra):
    def fail(**options):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(cli.commands["warm"], "callback", fail)
    message = run("warm", code=1).stderr
    assert re.findall(r"pip install 'ocelad\[(\w+)\]'", message) == ([] if extra is None else [extra])
    assert package in message


def test_demo_piped_prints_plain_text_and_draws(tmp_path):
    result = run_in_process("demo", "--rounds", "120", "--seed", "3", "--output", "drift.svg", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout), "control characters"
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("round")] == ["20", "40", "60", "80", "120"]
    assert "RICE-OCELAD" in result.stdout
    for phase in ("A, static", "B, moderate drift", "B, fast drift", "B, moderate again", "A, slow drift", "all"):
        row = next(line for line in lines if line.strip().startswith(phase) and "/" in line)
        assert len(re.findall(r"\d+\.\d\d/1?\.\d\d", row)) == 4
    assert lines[-1] == "Picture: drift.svg"
    assert "<svg" in (tmp_path / "drift.svg").read_text()


@pytest.fixture
def few_evaluations(monkeypatch):
    """Make short demonstrations faster: most of their time is spent on k-NN and k-means."""
    monkeypatch.setattr("ocelad.lab.demo.EVALUATIONS", 6)


@pytest.mark.usefixtures("few_evaluations")
def test_demo_is_the_same_for_the_same_seed(tmp_path):
    one, other, different = (
        run("demo", "--rounds", "60", "--seed", seed, cwd=tmp_path).stdout for seed in ("1", "1", "2")
    )
    assert one == other != different


@pytest.mark.usefixtures("few_evaluations")
def test_demo_quiet_prints_only_the_path(tmp_path):
    path = tmp_path / "picture.png"
    result = run("demo", "--rounds", "60", "--quiet", "--output", str(path))
    assert result.stdout == f"{path}\n"
    assert without_compile_notice(result.stderr) == ""
    assert path.read_bytes().startswith(b"\x89PNG")


def test_demo_on_a_terminal_shows_a_live_bar(tmp_path):
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "demo", "--rounds", "120"],
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
    )
    os.close(terminal)
    output = b""
    while select.select([master], [], [], 600)[0]:  # silent while kernels are compiled
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the process has closed the terminal
            break
        if not chunk:
            break
        output += chunk
    os.close(master)
    assert process.wait(timeout=600) == 0
    text = output.decode()
    assert "120/120" in text
    assert "plain distance" in text  # the experts with the largest weight
    assert "5-NN error" in text
    assert "A, slow drift" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--rounds", "10"], "10 is not in the range 60<=x<=1000000"),
        (["demo", "--rounds", "many"], "'many' is not a valid integer range"),
        (["demo", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["demo", "--output", "picture.doc"], "does not end in .png, .pdf or .svg"),
        (["demo", "--output", "nowhere/picture.png"], "the folder 'nowhere' does not exist"),
        (["demo", "--output", "."], "is a directory"),
        (["demo", "--speed", "9"], "No such option"),
        (["dmeo"], "No such command"),
    ],
)
def test_wrong_arguments_are_reported_before_any_work(tmp_path, arguments, sentence):
    result = run(*arguments, cwd=tmp_path, code=2)
    assert sentence in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("few_evaluations")
def test_failures_are_reported_in_one_sentence(tmp_path, monkeypatch):
    # The picture cannot be written although its folder is writable: the device is full.
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full, a device that is always full")
    (tmp_path / "full.png").symlink_to("/dev/full")
    result = run("demo", "--rounds", "60", "--output", tmp_path / "full.png", code=1)
    assert re.fullmatch(r"Error: .*No space left on device.*\n", without_compile_notice(result.stderr))
    monkeypatch.setenv("OCELAD_TRACEBACK", "1")
    with pytest.raises(OSError, match="No space left on device"):
        run("demo", "--rounds", "60", "--output", tmp_path / "full.png")


def test_demo_without_matplotlib_still_prints_its_table(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not installed')\n")
    result = run_in_process("demo", "--rounds", "60", cwd=tmp_path, PYTHONPATH=search_path(tmp_path))
    assert result.returncode == 0
    assert "RICE-OCELAD" in result.stdout
    assert result.stderr == "No picture: figures need matplotlib: pip install 'ocelad[plot]'\n"
    result = run_in_process("demo", "--quiet", cwd=tmp_path, PYTHONPATH=search_path(tmp_path))
    assert result.returncode == 1
    assert result.stderr == "Error: figures need matplotlib: pip install 'ocelad[plot]'\n"


@pytest.mark.usefixtures("few_evaluations")
def test_demo_says_why_there_is_no_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("ocelad.cli.demo"), "find_plotting_error", lambda: "no matplotlib")
    result = run("demo", "--rounds", "60", cwd=tmp_path)
    assert "RICE-OCELAD" in result.stdout
    assert "No picture: no matplotlib" in result.stderr
    assert "Error: no matplotlib" in run("demo", "--quiet", cwd=tmp_path, code=1).stderr
    assert not list(tmp_path.iterdir())


def test_strategies_without_hypothesis_say_what_to_install(tmp_path):
    (tmp_path / "hypothesis.py").write_text("raise ImportError('not installed')\n")
    statement = "import ocelad.testing; ocelad.testing.check_learner; import ocelad.testing.strategies"
    result = subprocess.run(
        [sys.executable, "-c", statement],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": search_path(tmp_path)},
    )
    assert (
        result.stderr.splitlines()[-1] == "ImportError: the strategies need Hypothesis: pip install 'ocelad[testing]'"
    )


def test_the_picture_in_the_docs_is_of_the_whole_stream():
    picture = Path(__file__).parent.parent / "docs" / "demo.png"
    with Image.open(picture) as image:
        assert image.text["Title"] == "ocelad demo --seed 0 --rounds 6000"


@pytest.mark.usefixtures("few_evaluations")
def test_the_demo_can_be_run_twice_but_not_drawn_before(tmp_path):
    demo = Demo(rounds=60)
    with pytest.raises(RuntimeError, match="nothing to draw yet"):
        demo.draw(tmp_path / "x.png")
    for _ in range(2):
        list(demo)
    assert len(demo.rows) == 24  # six evaluations of four methods


def test_argument_names_in_messages_become_options():
    assert name_options("name it with id_a=, or time=") == "name it with --id-a, or --time"
    assert name_options("id_a=; x='left'") == "--id-a; --x left"
    assert name_options("no column 'w' (weight=)") == "no column 'w' (--weight)"
    assert name_options("grid=1 and max=2") == "grid=1 and max=2"


def test_column_names_may_contain_commas_in_quotes():
    assert split_columns(None) is None
    assert split_columns("left_*") == "left_*"
    assert split_columns('a, b,"c, d"') == ["a", "b", "c, d"]


def test_json_has_no_nan_or_infinity():
    content = {1: (float("nan"), float("-inf"), 0.5, True), "a": None, "b": ["x", 2]}
    assert to_json(content) == '{"1": [null, null, 0.5, true], "a": null, "b": ["x", 2]}'


def test_an_output_must_not_be_an_input(tmp_path):
    path = tmp_path / "a.csv"
    check_output(path, path)  # neither exists yet
    path.touch()
    (tmp_path / "same.csv").hardlink_to(path)
    check_output(path, None, tmp_path / "other.csv")
    with pytest.raises(click.BadParameter, match="is an input file"):
        check_output(path, None, tmp_path / "same.csv")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.4, "59 min 59 s"), (3600, "1 h 0 min")],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


def test_progress_lines_are_printed_for_every_tenth(monkeypatch, capsys):
    times = iter([0.0, 1.0, 2.0, 4.5, 5.0])
    monkeypatch.setattr("ocelad.cli.progress.monotonic", lambda: next(times))
    with show_trials() as show:
        for done in (0, 5, 6, 10, 20):
            show("work", done, 20)
    assert capsys.readouterr().err.splitlines() == [
        "work: 0 of 20 trials",
        "work: 6 of 20 trials, about 5 s left",
        "work: 10 of 20 trials, about 4 s left",
        "work: 20 of 20 trials",
    ]


def test_progress_lines_start_with_the_first_call_and_forgive_a_total_of_zero(monkeypatch, capsys):
    """Finished trials of an earlier run do not count for the estimate, and each task has its own lines."""
    times = iter([100.0, 100.5, 110.0, 110.0])
    monkeypatch.setattr("ocelad.cli.progress.monotonic", lambda: next(times))
    with show_trials() as show:
        show("resumed", 10, 20)
        show("other", 0, 0)
        show("resumed", 15, 20)  # 5 trials took 10 seconds
        show("resumed", 15, 20)
    assert capsys.readouterr().err.splitlines() == [
        "resumed: 10 of 20 trials",
        "other: 0 of 0 trials",
        "resumed: 15 of 20 trials, about 10 s left",
    ]


def test_a_terminal_shows_one_bar_per_task(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_trials() as show:
        for done in (3, 4, 20):
            show("work", done, 20)
        show("more", 1, 5)
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()).splitlines()[-2:]
    assert [re.search(r"^(\w+) .* (\d+/\d+) ", line).groups() for line in last] == [("work", "20/20"), ("more", "1/5")]


@pytest.mark.parametrize(("restart", "words"), [(False, "the same command again"), (True, "without --restart")])
def test_an_interrupted_command_says_how_to_continue(restart, words, capsys):
    with pytest.raises(SystemExit) as exit:
        exit_interrupted(Path("results"), restart)
    assert exit.value.code == 130
    assert re.search(f"finished trials are in results. To continue, run .*{words}", capsys.readouterr().err)


@pytest.mark.parametrize("rounds", [60, 61, 599, 6000, 12_001])
def test_phases_are_scaled_to_any_number_of_rounds(rounds):
    lengths = [phase.length for phase in scale_phases(rounds)]
    assert sum(lengths) == rounds
    assert all(abs(length - rounds * share / 6) <= 1 for length, share in zip(lengths, (1, 1, 1, 1, 2), strict=True))


def test_too_few_rounds_are_rejected():
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 60"):
        scale_phases(59)
