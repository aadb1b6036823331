"""Reading items from a folder of pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ocelad._typing import Floats
from ocelad.service.items.item_scaling import fit_scaling
from ocelad.service.items.picture_cells import SUFFIXES
from ocelad.service.items.pictures import Picture, read_picture
from ocelad.service.items.upload_limits import ItemsError, UploadLimits, id_problem
from ocelad.service.itemset import ItemSet


def read_picture_folder(
    folder: Path,
    limits: UploadLimits,
    *,
    progress: Callable[[int, int], None] | None = None,
    skip: Callable[[str], None] | None = None,
) -> ItemSet:
    """Read the pictures of a folder and of its subfolders, sorted by name; see ``load_items``.

    Files with other suffixes are ignored. Features are the brightness of a grid of 16 x 16 cells, or of every pixel if
    all pictures have the same size and at most 784 pixels.
    """
    paths = _paths(folder)
    if not paths:
        raise ItemsError(f"{folder} has no pictures; accepted: files with the suffix {', '.join(SUFFIXES)}")
    limits.check(str(folder), len(paths), 1)
    ids: list[str] = []
    pictures: list[Picture] = []
    total = 0
    for done, path in enumerate(paths):
        if progress is not None:
            progress(done, len(paths))
        try:
            id = _id(path, folder)
            with open(path, "rb") as file:
                picture = read_picture(file, str(path))
        except OSError as error:
            _report(ItemsError(f"{path} cannot be opened: {error.strerror or error}"), skip)
            continue
        except ItemsError as error:
            _report(error, skip)
            continue
        ids.append(id)
        pictures.append(picture)
        total += len(picture.png)
        limits.check_pictures(str(folder), total)
    if progress is not None:
        progress(len(paths), len(paths))
    if len(pictures) < 2:
        raise ItemsError(f"{folder} has {len(pictures)} readable pictures; at least 2 are expected")
    X, feature_names = picture_features(pictures)
    limits.check(str(folder), *X.shape)
    full_pictures, notes = bounded_full_pictures(str(folder), pictures, limits)
    folders = [path.rpartition("/")[0] for path in ids]
    return ItemSet(
        ids=tuple(ids),
        features=X,
        feature_names=feature_names,
        scaling=fit_scaling(X, "all"),
        display="picture",
        pictures=[picture.png for picture in pictures],
        full_pictures=full_pictures,
        source_columns={"id": "path"},
        notes=notes,
        fields={"folder": [name or None for name in folders]} if any(folders) else {},
    )


def picture_features(pictures: Sequence[Picture]) -> tuple[Floats, tuple[str, ...]]:
    """Return the features of pictures, the brightness of their pixels or of a grid of cells, and their names."""
    brightness = _brightness(pictures)
    return brightness.reshape(len(brightness), -1), pixel_names(*brightness.shape[1:])


def bounded_full_pictures(
    name: str, pictures: Sequence[Picture | None], limits: UploadLimits
) -> tuple[list[bytes], tuple[str, ...]]:
    """Return the pictures in their own size, as many as fit into the limit, and a note if some do not."""
    found, total, n_left_out = [], 0, 0
    for picture in pictures:
        full = b"" if picture is None else picture.full
        fits = total + len(full) <= limits.max_full_bytes
        found.append(full if fits else b"")
        total += len(full) if fits else 0
        n_left_out += not fits
    if not n_left_out:
        return found, ()
    return found, (
        f"{name}: {n_left_out:,} pictures are stored only at the size of display, because all in their own size would "
        f"be larger than {limits.max_full_bytes >> 20:,} MiB",
    )


def pixel_names(height: int, width: int) -> tuple[str, ...]:
    """Return the names of the pixels of a picture.

    >>> pixel_names(1, 2)
    ('row 1, column 1', 'row 1, column 2')
    """
    return tuple(f"row {i + 1}, column {j + 1}" for i in range(height) for j in range(width))


def _paths(folder: Path) -> list[Path]:
    found = [path for pattern in ("*", "*/*") for path in folder.glob(pattern)]
    hidden = [path for path in found if any(part.startswith(".") for part in path.relative_to(folder).parts)]
    pictures = [path for path in set(found) - set(hidden) if path.suffix.lower() in SUFFIXES and path.is_file()]
    return sorted(pictures, key=lambda path: path.relative_to(folder).parts)


def _id(path: Path, folder: Path) -> str:
    id = path.relative_to(folder).as_posix()
    if problem := id_problem(id):
        raise ItemsError(f"the name of {str(path)!r} within the folder {problem}")
    return id


def _brightness(pictures: Sequence[Picture]) -> Floats:
    shapes = {None if picture.small is None else picture.small.shape for picture in pictures}
    one_size = len(shapes) == 1 and None not in shapes
    return np.array([picture.small if one_size else picture.thumbnail for picture in pictures])


def _report(error: ItemsError, skip: Callable[[str], None] | None) -> None:
    if skip is None:
        raise error
    skip(str(error))
