"""The formats of other programs that answers are written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from ocelad.service.itemset import ItemSet
from ocelad.service.labelled_pairs.dedupe_training import write_dedupe_training
from ocelad.service.labelled_pairs.splink_labels import write_splink_labels
from ocelad.service.labelled_pairs.written_answer import Answers
from ocelad.service.labelled_pairs.zingg_labels import write_zingg_labels

WrittenFormat: TypeAlias = Literal["dedupe", "splink", "zingg"]
WRITERS: dict[WrittenFormat, Callable[[Answers, ItemSet], Iterator[bytes]]] = {
    "dedupe": write_dedupe_training,
    "splink": write_splink_labels,
    "zingg": write_zingg_labels,
}
