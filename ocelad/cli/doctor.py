"""ocelad doctor: versions, machine and settings, and what is wrong with them."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ocelad.cli.options import json_option
from ocelad.cli.output import make_table, print_json, print_tables

REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "numba", "llvmlite"),
    *("click", "narwhals", "rich", "safetensors"),
)
# The extras of the package: what each is for, and the packages that it installs.
EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "files": ("the command line on files", ("pyarrow",)),
    "plot": ("pictures", ("matplotlib",)),
    "serve": ("the page and the HTTP API", ("fastapi", "uvicorn", "sqlalchemy", "alembic", "pydantic", "pillow")),
    "client": ("programs that use the HTTP API", ("httpx", "pydantic")),
    "oidc": ("logins with OpenID Connect", ("authlib", "requests")),
    "postgres": ("a service on PostgreSQL", ("psycopg",)),
    "records": ("links of records", ("rapidfuzz",)),
    "river": ("estimators for River", ("river",)),
    "spark": ("trackers by key on Apache Spark", ("pyspark", "pandas", "protobuf")),
    "dask": ("distances of tables of Dask", ("dask",)),
    "cluster": ("trials on a Dask cluster", ("distributed",)),
    "faiss": ("an index of faiss", ("faiss-cpu",)),
    "usearch": ("an index of usearch", ("usearch",)),
    "lancedb": ("tables of lancedb", ("lancedb",)),
    "testing": ("tests of your own learners", ("hypothesis",)),
}
# Settings of these names are shown: ours, and those of numba, BLAS and OpenMP.
_VARIABLE = re.compile(
    r"(OCELAD|NUMBA|OMP|OPENBLAS|MKL|BLIS|VECLIB|KMP|GOTO|SLURM_CPUS|LOKY)_\w+|PYTHONDONTWRITEBYTECODE"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|KEY|CREDENTIAL|DATABASE|URL|AUTH", re.I)
_MIN_BYTES = 1 << 30
# A part of numba's message if it may write in none of the folders that it tries.
_NO_CACHE = "no locator available"
T = TypeVar("T")


class Problem(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    remedy: str


@click.command(short_help="Check the installation and the machine.")
@json_option
def doctor(as_json: bool) -> None:
    """Print versions, the machine, the compiler, the cache of compiled kernels, threads and settings, and say what is
    wrong with them and what to do. Paste the output into a report of a bug.

    Environment variables that may hold a secret are only named. Nothing is changed. The exit code is 1 if there is a
    problem.

    \b
    Examples:
      ocelad doctor
      ocelad doctor --json > doctor.json
    """
    content = examine()
    if as_json:
        print_json(content)
    else:
        print_tables(*_make_tables(content))
        for problem in content["problems"]:
            click.echo(f"Problem: {problem['what']}. {problem['remedy']}.")
        for note in content["notes"]:
            click.echo(f"Note: {note}.")
        if not content["problems"]:
            click.echo("No problems found.")
    if content["problems"]:
        click.get_current_context().exit(1)


def examine() -> dict[str, Any]:
    """Return everything that the command prints, as values that JSON can store."""
    import ocelad

    versions: dict[str, str | None] = {"ocelad": ocelad.__version__, "python": platform.python_version()}
    versions |= {name: _find_version(name) for name in REQUIRED}
    extras = {
        name: {"purpose": purpose, "missing": [each for each in packages if _find_version(each) is None]}
        for name, (purpose, packages) in EXTRAS.items()
    }
    failures: list[Problem] = []
    compiler = _examine_compiler()
    no_threads: list[dict[str, Any]] = []
    threads = _guard("threads", _examine_threads, no_threads, failures)
    machine = _guard("machine", _examine_machine, {"memory": None, "usable cores": None}, failures)
    variables = describe_variables(os.environ)
    problems, notes = _judge(versions, machine, compiler, variables)
    problems = [*failures, *problems]
    return {
        "versions": versions,
        "extras": extras,
        "machine": machine,
        "compiler": compiler,
        "threads": threads,
        "variables": variables,
        "problems": [problem._asdict() for problem in problems],
        "notes": notes,
    }


def _guard(what: str, examine: Callable[[], T], otherwise: T, failures: list[Problem]) -> T:
    """Return what an examination finds; if it fails, record why and return ``otherwise``."""
    try:
        return examine()
    except Exception as error:
        remedy = "Install the packages again: pip install --force-reinstall ocelad"
        failures.append(Problem(f"the {what} cannot be examined ({type(error).__name__}: {error})", remedy))
        return otherwise


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _examine_machine() -> dict[str, Any]:
    affinity = getattr(os, "sched_getaffinity", None)
    total, available = _find_memory()
    return {
        "platform": platform.platform(),
        "python": f"{platform.python_implementation()}, {sys.executable}",
        "processor": _find_processor(),
        "cores": os.cpu_count(),
        "usable cores": os.cpu_count() if affinity is None else len(affinity(0)),
        "memory": total,
        "available memory": available,
    }


def _find_processor() -> str:
    try:
        from llvmlite import binding  # type: ignore[import-untyped]

        return f"{platform.machine()}, {binding.get_host_cpu_name()}"
    except Exception:  # whatever is broken must not stop the examination
        return platform.machine()


def _find_memory() -> tuple[int | None, int | None]:
    """Return the total and the available memory in bytes, as far as the system tells; a container has a limit."""
    total = available = None
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
        total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    except OSError:
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return None, None
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return total, available
    return min(total or limit, limit), None if available is None else min(available, limit)


def _examine_compiler() -> dict[str, Any]:
    """Compile a tiny kernel, and look at the cache; what fails is described instead."""
    found: dict[str, Any] = {"seconds": None, "error": None, "cache": None, "writable": None, "compiled": None}
    try:
        from ocelad._compile import numba_config
        from ocelad.engines.kernel_loading import compile_probe, kernels_compiled, kernels_folder

        found["enabled"] = not numba_config.DISABLE_JIT
        found["seconds"] = compile_probe()
        if found["enabled"]:
            folder = kernels_folder()
            existing = next(path for path in (folder, *folder.parents) if path.exists())
            found |= {
                "cache": str(folder),
                "writable": os.access(existing, os.W_OK),
                "compiled": kernels_compiled("adaptive"),
            }
    except Exception as error:
        return {**found, "enabled": False, "error": f"{type(error).__name__}: {error}"}
    return found


def _examine_threads() -> list[dict[str, Any]]:
    """Return the libraries that run threads: BLAS and OpenMP."""
    from threadpoolctl import threadpool_info

    for name in ("scipy.linalg", "sklearn"):  # they load the libraries
        import_module(name)

    names = ("user_api", "internal_api", "version", "num_threads")
    return [{name: each.get(name) for name in names} for each in threadpool_info()]


def describe_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that matter; of those that may hold a secret, only that they are set.

    >>> describe_variables({"OMP_NUM_THREADS": "4", "OCELAD_SERVE_PROXY_SECRET": "abc", "HOME": "/root"})
    {'OCELAD_SERVE_PROXY_SECRET': '(set)', 'OMP_NUM_THREADS': '4'}
    """
    return {
        name: "(set)" if _SECRET.search(name) or "://" in value else value
        for name, value in sorted(environment.items())
        if _VARIABLE.fullmatch(name)
    }


def _judge(
    versions: Mapping[str, str | None],
    machine: Mapping[str, Any],
    compiler: Mapping[str, Any],
    variables: Mapping[str, str],
) -> tuple[list[Problem], list[str]]:
    """Return what is wrong, and what is only slow or missing."""
    problems, notes = [], []
    for name, found in versions.items():
        if found is None:
            problems.append(Problem(f"{name} is not installed", "Install it with: pip install ocelad"))
    if _NO_CACHE in (compiler["error"] or ""):
        remedy = "Set NUMBA_CACHE_DIR to a folder that can be written"
        problems.append(Problem(f"numba finds no folder for its cache of kernels ({compiler['error']})", remedy))
    elif compiler["error"] is not None:
        remedy = "Install versions of numba and llvmlite that fit each other: pip install --upgrade numba"
        problems.append(Problem(f"numba cannot compile ({compiler['error']})", remedy))
    elif not compiler["enabled"]:
        notes.append("NUMBA_DISABLE_JIT is set, so that kernels run as plain Python, about a hundred times as slow")
    elif not compiler["writable"]:
        remedy = "Set NUMBA_CACHE_DIR to a folder that is, otherwise every process compiles for about a minute"
        problems.append(Problem(f"the cache of kernels, {compiler['cache']}, is not writable", remedy))
    elif not compiler["compiled"]:
        notes.append("the kernels are not compiled yet: `ocelad warm` compiles them, otherwise the first use does")
    if machine["memory"] is not None and machine["memory"] < _MIN_BYTES:
        problems.append(Problem("there is less than 1 GB of memory", "Compiling the kernels may need more"))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        value, cores = variables.get(name, ""), machine["usable cores"] or 1
        if value.isdigit() and int(value) > cores:
            notes.append(f"{name} is {value}, but only {cores} cores can be used: more threads than cores are slow")
    return problems, notes


def _make_tables(content: Mapping[str, Any]) -> list[Any]:
    versions = [[name, found or "not installed"] for name, found in content["versions"].items()]
    extras = [
        [
            f"ocelad[{name}]",
            extra["purpose"],
            f"missing: {', '.join(extra['missing'])}" if extra["missing"] else "installed",
        ]
        for name, extra in content["extras"].items()
    ]
    machine = [[name, _format_size(value)] for name, value in content["machine"].items() if value is not None]
    threads = [
        [str(each["user_api"]), f"{each['internal_api']} {each['version'] or ''}".strip(), str(each["num_threads"])]
        for each in content["threads"]
    ]
    tables = [
        make_table("Versions", ["", ""], versions),
        make_table("Extras: pip install 'ocelad[NAME]'", ["NAME", "for", ""], extras, numbers=False),
        make_table("Machine", ["", ""], machine),
        make_table("Compiler", ["", ""], _compiler_rows(content["compiler"])),
        make_table("Threads", ["", "library", "threads"], threads),
    ]
    if content["variables"]:
        rows = [[name, value] for name, value in content["variables"].items()]
        tables.append(make_table("Environment variables", ["", ""], rows))
    return tables


def _compiler_rows(compiler: Mapping[str, Any]) -> list[list[str]]:
    if compiler["error"] is not None:
        return [["numba", f"fails: {compiler['error']}"]]
    if not compiler["enabled"]:
        return [["numba", "switched off by NUMBA_DISABLE_JIT"]]
    return [
        ["numba", f"compiles a tiny kernel in {compiler['seconds']:.2f} s"],
        ["cache", compiler["cache"]],
        ["", "writable" if compiler["writable"] else "not writable"],
        ["kernels", "compiled" if compiler["compiled"] else "not compiled yet"],
    ]


def _format_size(value: Any) -> str:
    """Return a number of bytes in GiB; other values as they are.

    >>> _format_size(3 << 30), _format_size(8)
    ('3.0 GiB', '8')
    """
    return f"{value / (1 << 30):.1f} GiB" if isinstance(value, int) and value > 1 << 20 else str(value)
