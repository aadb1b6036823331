"""Record linkage: which records of two tables, or of one, describe the same entity."""

from ocelad.records.blocking import BlockKey, Candidates, candidate_pairs, parse_rules
from ocelad.records.record_comparison import RecordComparison
from ocelad.records.record_linker import Answer, Links, NoQuestionsLeft, Question, RecordLinker
from ocelad.records.record_table import RecordTable, read_table

__all__ = [
    "Answer",
    "BlockKey",
    "Candidates",
    "Links",
    "NoQuestionsLeft",
    "Question",
    "RecordComparison",
    "RecordLinker",
    "RecordTable",
    "candidate_pairs",
    "parse_rules",
    "read_table",
]
