"""Type aliases shared by several packages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
# Saved state: named arrays, and metadata of JSON types.
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Metadata: TypeAlias = dict[str, Any]
