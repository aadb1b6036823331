"""Mutation testing: make small faults in the package, one at a time, and count how many the tests find.

    python tools/mutation.py map            record which tests run which lines, and how long they take (once, minutes)
    python tools/mutation.py run            draw 240 faults over all rooms, run the tests that concern each
    python tools/mutation.py run --room io --faults 40 --seed 7
    python tools/mutation.py map --tests tests/test_comid.py    record these files again, keep the rest of the map
    python tools/mutation.py map --plain    only the tests of the kernels as plain Python (two minutes);
    python tools/mutation.py run --plain    only faults in files that those tests run

A fault swaps a comparison, a sign, a boolean or ``min``/``max``, shifts a number, negates a condition, or drops a
statement; the words of messages and the looks of pictures are left out. Faults are drawn by a seed, as many from each
room as from any other. Each one is made in a copy of the repository, never in the checkout. The tests that run the
faulty line are run, the fastest first, until one fails. Compiled kernels are tested as plain Python
(NUMBA_DISABLE_JIT=1), because a changed kernel would recompile all of them.

The result is a table of killed faults per room and a list of survivors; ``--output`` writes both as JSON.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parent.parent
MAP = ROOT / ".mutation"
# The tests that run the kernels as plain Python; the Makefile has the same list.
PLAIN_TESTS = (
    *("engines", "kernels", "blocked", "diagonal", "margins"),
    *("relatives", "step_schedule", "compiled_weightings", "scores", "adaptive", "losses", "lmnn_kernels"),
)
# Sources that kernels are compiled from.
KERNEL_SOURCES = (
    "ocelad/ensemble/schedule.py",
    "ocelad/ensemble/weight_updates.py",
    "ocelad/learners/losses.py",
    "ocelad/_compile.py",
)
# One fault is given up after this many seconds; an endless loop counts as found.
TIMEOUT_S = 150
# The tests of one fault take about this many seconds at most, by their recorded times.
BUDGET_S = 30.0

SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Fault:
    """One change of one place in one file."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    @property
    def room(self) -> str:
        """The folder under ``ocelad/``, or "core" for the files at the top level."""
        parts = Path(self.path).parts
        return parts[1] if len(parts) > 2 else "core"

    def apply(self, source: str) -> str:
        """Return the source with the fault in it."""
        return source[: self.start] + self.after + source[self.end :]


class _Sites(ast.NodeVisitor):
    """Collects the faults that can be made in one file."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._source = path, source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))
        self._bytes = source.encode()
        self.faults: list[Fault] = []

    def _offset(self, line: int, column: int) -> int:
        return len(self._bytes[: self._starts[line - 1] + column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _add(self, node: ast.AST, kind: str, start: int, end: int, after: str) -> None:
        line = self._source.count("\n", 0, start) + 1
        self.faults.append(Fault(self._path, line, kind, self._source[start:end], after, start, end))

    def _swap_between(self, left: ast.AST, right: ast.AST, operator: ast.AST) -> None:
        """Swap the operator that stands between two operands."""
        if type(operator) not in SWAPS:
            return
        start, end = self._span(left)[1], self._span(right)[0]
        text = self._source[start:end]
        stripped = text.strip().lstrip(")").rstrip("(").strip()
        if not stripped or "#" in text or "\n" in stripped:
            return
        at = start + text.index(stripped)
        self._add(operator, "operator", at, at + len(stripped), SWAPS[type(operator)])

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for i, operator in enumerate(node.ops):
            self._swap_between(operands[i], operands[i + 1], operator)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(isinstance(side, (ast.JoinedStr, ast.List)) or _is_text(side) for side in (node.left, node.right)):
            self._swap_between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap_between(left, right, node.op)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, end = self._span(node)
        if isinstance(node.value, bool):
            self._add(node, "boolean", start, end, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, "number", start, end, f"({self._source[start:end]} + 1)")
        elif isinstance(node.value, float):
            self._add(node, "number", start, end, f"({self._source[start:end]} * 2.0 + 1e-3)")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)) and not isinstance(node.operand, ast.Constant):
            start, end = self._span(node)
            self._add(node, "unary", start, end, f"({self._source[slice(*self._span(node.operand))]})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            self._add(node, "min/max", *self._span(node.func), "max" if node.func.id == "min" else "min")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        start, end = self._span(node.test)
        self._add(node, "condition", start, end, f"not ({self._source[start:end]})")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # docstrings
        if isinstance(node.value, ast.Call):
            self._add(node, "dropped call", *self._span(node), "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "dropped update", *self._span(node), "pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        return  # the words of messages

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return  # the words of messages

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:  # not the decorators: frozen, slots
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__" or node.name.lstrip("_").startswith(("draw", "plot")):
            return  # words and looks
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def all_faults() -> dict[str, list[Fault]]:
    """Return every fault that can be made, by room."""
    by_room: dict[str, list[Fault]] = defaultdict(list)
    for path in sorted((ROOT / "ocelad").rglob("*.py")):
        if "migrations" in path.parts or "plot" in path.stem:
            continue
        name, source = str(path.relative_to(ROOT)), path.read_text()
        sites = _Sites(name, source)
        sites.visit(ast.parse(source))
        for fault in sites.faults:
            by_room[fault.room].append(fault)
    return dict(by_room)


def draw_faults(count: int, seed: int, room: str | None, files: set[str] | None = None) -> list[Fault]:
    """Draw faults, as many from each room as from any other, in an order that does not depend on the machine."""
    by_room = {
        name: [fault for fault in faults if files is None or fault.path in files]
        for name, faults in sorted(all_faults().items())
        if room in (None, name)
    }
    if not by_room:
        raise SystemExit(f"there is no room {room!r}; rooms: {', '.join(sorted(all_faults()))}")
    rng = random.Random(seed)
    piles = [rng.sample(faults, len(faults)) for faults in by_room.values()]
    drawn: list[Fault] = []
    while len(drawn) < count and any(piles):
        for pile in piles:
            while pile and not _compiles(pile[-1]):
                pile.pop()
            if pile and len(drawn) < count:
                drawn.append(pile.pop())
    return drawn


def _compiles(fault: Fault) -> bool:
    try:
        compile(fault.apply((ROOT / fault.path).read_text()), fault.path, "exec")
    except SyntaxError:
        return False
    return True


# --- which tests concern a line ---------------------------------------------------------------------------------


def record_map(kinds: Sequence[str], only: Sequence[str] = ()) -> None:
    """Run the tests with coverage, compiled or as plain Python, and keep which test runs which line.

    With ``only``, just these test files are run, and the rest of an existing map is kept.
    """
    MAP.mkdir(exist_ok=True)
    for kind in kinds:
        tests = [f"tests/test_{name}.py" for name in PLAIN_TESTS] if kind == "plain" else []
        if only:
            tests = [name for name in only if kind == "compiled" or name in tests]
            if not tests:
                continue
        with tempfile.TemporaryDirectory(prefix="mutation-map-") as folder:
            _record(kind, tests, Path(folder), workers="0" if only else "auto")
            if only:
                _merge(kind, tests, Path(folder))
            else:
                for name in _files_of_map(kind):
                    shutil.copy(Path(folder) / name, MAP / name)


def _files_of_map(kind: str) -> tuple[str, str]:
    return f"{kind}.coverage", f"{kind}.times.json"


def _record(kind: str, tests: Sequence[str], folder: Path, workers: str) -> None:
    """Run tests (all of them if none are named) and write their lines and times to the folder."""
    coverage, times = _files_of_map(kind)
    environment = {
        **os.environ,
        "COVERAGE_FILE": str(folder / coverage),
        "MUTATION_TIMES": str(folder / times),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    if kind == "plain":
        environment["NUMBA_DISABLE_JIT"] = "1"
    # In this process "no" is needed: with another distribution, the coverage has no contexts.
    spread = "no" if workers == "0" else "worksteal"
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", spread, "-p", "test_times"]
    command += ["--cov=ocelad", "--cov-context=test", "--cov-report=", *tests]
    print(f"Recording the {kind} tests ...", flush=True)
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise SystemExit("the tests must pass before faults are made")


def _merge(kind: str, tests: Sequence[str], folder: Path) -> None:
    """Replace what the map has about these test files by what the folder has about them."""
    from coverage import CoverageData

    coverage, times = _files_of_map(kind)
    copy = MAP / f"{coverage}.new"  # the map itself may be in use by a run
    if (MAP / coverage).exists():
        shutil.copy(MAP / coverage, copy)
        with sqlite3.connect(copy) as database:
            for name, table in product(tests, ("line_bits", "arc")):
                database.execute(
                    f"DELETE FROM {table} WHERE context_id IN (SELECT id FROM context WHERE context LIKE ?)",
                    (f"{name}::%",),
                )
        database.close()
    merged, new = CoverageData(str(copy)), CoverageData(str(folder / coverage))
    if copy.exists():
        merged.read()
    new.read()
    merged.update(new)
    merged.close()
    old_times = json.loads((MAP / times).read_text()) if (MAP / times).exists() else {}
    kept = {node: seconds for node, seconds in old_times.items() if node.partition("::")[0] not in tests}
    (MAP / times).write_text(json.dumps(kept | json.loads((folder / times).read_text())))
    copy.replace(MAP / coverage)


class TestMap:
    """Which tests run a line, the fastest first."""

    def __init__(self, kinds: Sequence[str]) -> None:
        from coverage import CoverageData

        self._kinds, self._data, self._times = kinds, {}, {}
        for kind in kinds:
            if not (MAP / f"{kind}.coverage").exists():
                raise SystemExit("run `python tools/mutation.py map` first")
            self._data[kind] = CoverageData(str(MAP / f"{kind}.coverage"))
            self._data[kind].read()
            self._times[kind] = json.loads((MAP / f"{kind}.times.json").read_text())

    def files(self) -> set[str]:
        """Return the files of the package that the recorded tests run."""
        return {
            str(Path(name).relative_to(ROOT))
            for data in self._data.values()
            for name in data.measured_files()
            if any(context for contexts in data.contexts_by_lineno(name).values() for context in contexts)
        }

    def tests_of(self, fault: Fault) -> tuple[str, list[str]]:
        """Return "plain" or "compiled", and the tests that run the faulty line within the budget of time."""
        kernel = "kernels" in fault.path or fault.path in KERNEL_SOURCES
        kind = "plain" if kernel or "compiled" not in self._kinds else "compiled"
        contexts = self._data[kind].contexts_by_lineno(str(ROOT / fault.path))
        of_line = {context for context in contexts.get(fault.line, ()) if context}
        if not of_line:  # lines that run when a module is imported: the tests of the whole file
            of_line = {context for several in contexts.values() for context in several if context}
        times = self._times[kind]
        direct = {context.partition("|")[0] for context in of_line} & times.keys()
        # A fixture that several tests share runs once, in the first of them: its lines concern the others, too.
        files = {context.partition("::")[0] for context in of_line if context.endswith("|setup")}
        indirect = {node for node in times if node.partition("::")[0] in files} - direct
        chosen, total = [], 0.0
        for node in (node for nodes in (direct, indirect) for node in sorted(nodes, key=lambda n: (times[n], n))):
            total += times[node]
            if chosen and total > BUDGET_S:
                break
            chosen.append(node)
        return kind, chosen


# --- running ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: "killed", "timeout", "survived", or "untested" where no test runs the line."""

    fault: Fault
    status: str
    n_tests: int
    seconds: float


def run_fault(fault: Fault, tests: TestMap, copy: Path) -> Outcome:
    """Make the fault in a copy of the repository and run the tests that concern it."""
    kind, nodes = tests.tests_of(fault)
    if not nodes:
        return Outcome(fault, "untested", 0, 0.0)
    target, begin = copy / fault.path, time.perf_counter()
    original = target.read_text()
    # Commands that tests run in other folders must import the copy, too, not the installed package.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    if kind == "plain":
        environment["NUMBA_DISABLE_JIT"] = "1"
    arguments = copy / "tests_of_fault.txt"
    arguments.write_text("\n".join(nodes))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", f"@{arguments}"]
    try:
        target.write_text(fault.apply(original))
        finished = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        status = "survived" if finished.returncode == 0 else "killed"
    except subprocess.TimeoutExpired:
        status = "timeout"
    finally:
        target.write_text(original)
    return Outcome(fault, status, len(nodes), time.perf_counter() - begin)


def run_faults(faults: list[Fault], tests: TestMap, n_jobs: int) -> Iterator[Outcome]:
    """Run all faults, several at a time, each worker in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies: Queue[Path] = Queue()
        for i in range(n_jobs):
            copy = Path(folder) / str(i)
            ignored = shutil.ignore_patterns(".git", ".venv", ".mutation", ".mypy_cache", ".pytest_cache", "_build")
            shutil.copytree(ROOT, copy, ignore=ignored)
            copies.put(copy)

        def run(fault: Fault) -> Outcome:
            copy = copies.get()
            try:
                return run_fault(fault, tests, copy)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(n_jobs) as pool:
            yield from pool.map(run, faults)


def report(outcomes: list[Outcome]) -> str:
    """Return the table of killed faults per room, and the survivors."""
    lines, rooms = [], defaultdict(list)
    for outcome in outcomes:
        rooms[outcome.fault.room].append(outcome)
    for room, several in sorted(rooms.items()):
        killed = sum(outcome.status in ("killed", "timeout") for outcome in several)
        lines.append(f"{room:12} {killed:4} of {len(several):4} killed  {killed / len(several):6.1%}")
    killed = sum(outcome.status in ("killed", "timeout") for outcome in outcomes)
    lines.append(f"{'all':12} {killed:4} of {len(outcomes):4} killed  {killed / len(outcomes):6.1%}")
    survivors = [outcome for outcome in outcomes if outcome.status in ("survived", "untested")]
    if survivors:
        lines.append("\nSurvivors:")
    for outcome in survivors:
        fault = outcome.fault
        lines.append(
            f"  {fault.path}:{fault.line} ({fault.kind}) {fault.before!r} -> {fault.after!r}  "
            f"[{outcome.status}, {outcome.n_tests} tests]"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("map", help="record which tests run which lines")
    record.add_argument("--tests", nargs="+", default=[], help="record only these test files into the existing map")
    run = commands.add_parser("run", help="make faults and run the tests that concern them")
    run.add_argument("--faults", type=int, default=240, help="how many faults are drawn (240)")
    run.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    run.add_argument("--room", help="only faults of this room")
    run.add_argument("--jobs", type=int, default=os.cpu_count(), help="faults at a time (all cores)")
    run.add_argument("--at-least", type=float, default=0.85, help="exit with 1 if a smaller share is killed (0.85)")
    run.add_argument("--output", type=Path, help="write all outcomes to this JSON file")
    for command in (record, run):
        command.add_argument("--plain", action="store_true", help="only the tests of the kernels as plain Python")
    options = parser.parse_args()
    kinds = ("plain",) if options.plain else ("plain", "compiled")
    if options.command == "map":
        record_map(kinds, options.tests)
        return
    outcomes: list[Outcome] = []
    tests = TestMap(kinds)
    faults = draw_faults(options.faults, options.seed, options.room, tests.files() if options.plain else None)
    for outcome in run_faults(faults, tests, options.jobs):
        outcomes.append(outcome)
        fault = outcome.fault
        print(
            f"{len(outcomes):4}/{len(faults)} {outcome.status:9} {outcome.seconds:6.1f} s  {fault.path}:{fault.line} "
            f"{fault.before!r} -> {fault.after!r}",
            flush=True,
        )
    print("\n" + report(outcomes))
    if options.output:
        rows = [{**asdict(outcome.fault), **asdict(outcome), "fault": None} for outcome in outcomes]
        options.output.write_text(json.dumps({"seed": options.seed, "outcomes": rows}, indent=1) + "\n")
    killed = sum(outcome.status in ("killed", "timeout") for outcome in outcomes)
    if killed < options.at_least * len(outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
