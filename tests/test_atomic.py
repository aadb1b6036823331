"""Files are replaced as a whole: the temporary file, the flushes, permissions, links, failures."""

import os
import sqlite3
from contextlib import closing

import pytest

from ocelad.io.atomic import fsync_folder, open_atomically, remove_leftovers, replace_atomically, write_atomically


def test_a_file_is_created_and_replaced(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "file"
    with open_atomically(path) as file:
        file.write(b"one ")
        assert not path.exists()
        file.write(b"two")
    assert path.read_bytes() == b"one two"


@pytest.mark.parametrize("failure", [OSError("no space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["block", "os.fsync", "os.chmod", "os.replace"])
def test_after_a_failure_the_old_content_remains_and_no_other_file(step, failure, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise failure

    def write(during):
        with open_atomically(path) as file:
            file.write(b"new")
            if step == "block":
                fail()
            during.setattr(step, fail)

    with monkeypatch.context() as during, pytest.raises(type(failure)):
        write(during)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_and_folder_are_flushed_around_the_replacement(tmp_path, monkeypatch):
    calls, fsync, replace = [], os.fsync, os.replace

    def record_fsync(descriptor):
        calls.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def record_replace(source, target):
        calls.append(("replace", os.path.basename(target)))
        replace(source, target)

    monkeypatch.setattr("os.fsync", record_fsync)
    monkeypatch.setattr("os.replace", record_replace)
    write_atomically(tmp_path / "file", b"content")
    (first, temporary), *others = calls
    assert first == "fsync"
    assert temporary.startswith(".file.")
    assert temporary.endswith(".part")
    assert others == [("replace", "file"), ("fsync", tmp_path.name)]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "file", b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_stricter_mode_holds_from_the_start(tmp_path):
    with replace_atomically(tmp_path / "file", mode=0o600) as temporary:
        assert temporary.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "folder" / "file", tmp_path / "link"
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.chmod(0o604)
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o604
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("letter", ["a", "é", "日", "𝒳"])
def test_names_up_to_the_limit_of_the_file_system_are_accepted(letter, tmp_path):
    name = letter * (255 // len(letter.encode()))
    write_atomically(tmp_path / name, b"content")
    assert (tmp_path / name).read_bytes() == b"content"


def test_another_program_can_write_the_file(tmp_path):
    path = tmp_path / "database"
    with replace_atomically(path) as temporary, closing(sqlite3.connect(temporary)) as connection:
        connection.execute("CREATE TABLE numbers (value)").close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (0,)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replace_atomically(tmp_path / "missing" / "file"):
        pass
    with pytest.raises(FileNotFoundError):
        fsync_folder(tmp_path / "missing")


def test_only_leftovers_of_the_named_file_are_removed(tmp_path):
    digits = "0123456789abcdef" * 2
    names = [f".a[1].{digits}.part", f".a1.{digits}.part", f".a[1].{digits[1:]}.part", f"a[1].{digits}.part", "a[1]"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path / "a[1]")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_long_name_finds_its_leftovers(tmp_path):
    path = tmp_path / ("a" * 200)
    with replace_atomically(path) as leftover:
        pass
    leftover.write_bytes(b"")
    remove_leftovers(path)
    assert list(tmp_path.iterdir()) == [path]
