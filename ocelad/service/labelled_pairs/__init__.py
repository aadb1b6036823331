"""Files of labelled pairs: tables of ids, and the training files of dedupe, Splink and Zingg."""

from ocelad.service.labelled_pairs.answer_words import ACCEPTED_ANSWERS, parse_answer
from ocelad.service.labelled_pairs.arrow_process import as_text
from ocelad.service.labelled_pairs.import_plan import ImportPlan, UnknownPair, plan_import
from ocelad.service.labelled_pairs.labelled_pair import ItemReference, LabelledPair
from ocelad.service.labelled_pairs.pair_files import KINDS, PairFile, PairFormat, read_pairs
from ocelad.service.labelled_pairs.pairs_error import PairsError, UnknownItems
from ocelad.service.labelled_pairs.writers import WRITERS, WrittenFormat
from ocelad.service.labelled_pairs.written_answer import Answers, WrittenAnswer

__all__ = [
    "ACCEPTED_ANSWERS",
    "KINDS",
    "WRITERS",
    "Answers",
    "ImportPlan",
    "ItemReference",
    "LabelledPair",
    "PairFile",
    "PairFormat",
    "PairsError",
    "UnknownItems",
    "UnknownPair",
    "WrittenAnswer",
    "WrittenFormat",
    "as_text",
    "parse_answer",
    "plan_import",
    "read_pairs",
]
