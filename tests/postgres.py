"""A PostgreSQL server for tests, with a cluster of its own in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import pytest

PASSWORD = "an otter's secret"


class Server:
    """A running server."""

    def __init__(self, bindir: Path, port: int, process: subprocess.Popen[bytes]) -> None:
        self.bindir = bindir
        self.port = port
        self.process = process
        self._n_created = 0

    def new_url(self) -> str:
        """Create a database and return its URL."""
        self._n_created += 1
        self.run(f"CREATE DATABASE test_{self._n_created}")
        return self.url(f"test_{self._n_created}")

    def url(self, database: str) -> str:
        return f"postgresql://postgres:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def end_connections(self, url: str, like: str = "ocelad%") -> int:
        """Terminate connections to a database and return their number."""
        database = url.rpartition("/")[2]
        return len(
            self.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE datname = '{database}' AND application_name LIKE '{like}'"
            )
        )


@contextmanager
def running(*, fsync: bool = True) -> Iterator[Server]:
    """Run a server; skip the test if none is installed. Without ``fsync`` it is safe except for a power cut."""
    bindir = find_bindir()
    if bindir is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    folder = Path(mkdtemp(prefix="ocelad-postgres-"))
    # PostgreSQL does not run as root.
    as_user: dict[str, object] = (
        {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    )
    try:
        (folder / "password").write_text(PASSWORD)
        if as_user:
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        data = folder / "data"
        options = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync"]
        command = [bindir / "initdb", "-D", data, "--encoding=UTF8", "--locale=C", *options]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **as_user)
        port = _free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": folder,
            "max_connections": 50,
            "shared_buffers": "16MB",
            "fsync": "on" if fsync else "off",
        }
        with open(folder / "log", "wb") as log:
            command = [bindir / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **as_user)
        try:
            server = Server(bindir, port, process)
            _wait_for(server, folder / "log")
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # "immediate" shutdown: the data are not needed any more
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running(fsync=False) as server:
        yield server


def find_bindir() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``, the newest version; Debian does not put it on the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    if found := shutil.which("postgres"):
        folders.append(Path(found).parent)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(server: Server, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            server.run("SELECT 1")
            return
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.05)
