"""A database file that is deleted or replaced under a running server: nothing more is acknowledged, and all say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from serving import Server, some_items

from ocelad.service.entries import NewEntry
from ocelad.service.store import Store

BODY = {"left": "item 0", "right": "item 1", "answer": "same"}
N_ANSWERS = 60


def make_data(folder: Path) -> None:
    items = some_items()
    with Store.open(folder) as store:
        store.create_project("it", "It", items, {"method": "adaptive"}, "")
        store.append("it", [NewEntry(i % 12, (i + 1 + i // 12) % 12, "same") for i in range(N_ANSWERS)]).result()


def delete(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def replace_by_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


@pytest.mark.parametrize("damage", [delete, replace_by_copy])
def test_nothing_is_acknowledged_once_the_database_file_is_gone(tmp_path: Path, damage) -> None:
    folder = tmp_path / "data"
    make_data(folder)
    server = Server(folder, "--log-level", "warning")
    try:
        with httpx.Client(base_url=server.url, timeout=20) as http:
            assert http.post("/v1/projects/it/comparisons", json=BODY).status_code == 201
            deadline = time.monotonic() + 60
            while http.get("/v1/projects/it/metric").json()["seq"] <= N_ANSWERS:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert http.get("/v1/ready").status_code == 200
            damage(folder / "ocelad.sqlite3")
            ready = http.get("/v1/ready")  # before any answer
            assert (ready.status_code, ready.json()["status"]) == (503, "failing")
            assert "was deleted or replaced while the service was running" in ready.json()["reason"]
            assert str(tmp_path) not in ready.text
            for _ in range(3):
                reply = http.post("/v1/projects/it/comparisons", json=BODY)
                assert (reply.status_code, reply.json()["error"]["code"]) == (503, "database_lost")
                assert "nothing is stored any more" in reply.json()["error"]["message"]
                assert "retry-after" in reply.headers
            for path in ("history", "next-pair", "export?format=csv", "items"):
                http.get(f"/v1/projects/it/{path}")  # reading must not make another file
    finally:
        assert server.stop() == 0
    assert "while the service was running" in server.log.read_text()
    if damage is replace_by_copy:
        return
    assert (folder / "snapshots" / "it.tracker").exists()
    database = folder / "ocelad.sqlite3"
    for size in (None, 0):
        if size is None:
            assert not database.exists() or database.stat().st_size == 0
        else:
            database.write_bytes(b"")
        command = [sys.executable, "-m", "ocelad", "serve", "--data-folder", str(folder), "--port", "0"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode not in (0, None)
        assert "Traceback" not in result.stderr
        assert "shows that there were projects" in result.stderr
        assert len([line for line in result.stderr.splitlines() if line.strip()]) <= 2
