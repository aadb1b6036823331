"""WarmupBank: the definition computes the first rounds, so that a few pairs need not wait for compiled code to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from ocelad._typing import Arrays, Metadata
from ocelad.engines.metric_bank import MetricLearnerBank
from ocelad.engines.rice_bank import RiceBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair, Relative

if TYPE_CHECKING:
    from ocelad.engines.compiled_bank import CompiledBank

#: The number of rounds that the definition computes.
WARMUP_ROUNDS = 8
#: With more features the definition would be slower than loading compiled code.
MAX_WARMUP_FEATURES = 64


class WarmupBank(MetricLearnerBank):
    """A bank that computes the first rounds by the definition and is then replaced by a compiled bank.

    Parameters
    ----------
    definition : RiceBank
    engine : str
        The engine of the compiled bank.
    compiled : callable () -> CompiledBank
        Creates the compiled bank.
    """

    def __init__(self, definition: RiceBank, engine: str, compiled: Callable[[], CompiledBank]) -> None:
        self._definition = definition
        self.engine = engine
        self._compiled = compiled

    def start(self, round_state: RoundState) -> Any:
        """Start the learners of the scales that begin an interval; return a warm-up bank or the compiled bank."""
        definition = self._definition.start(round_state)
        if round_state.round <= WARMUP_ROUNDS:
            return self._with(definition)
        return self._compiled().with_metrics(definition.metrics(round_state), round_state)

    def with_metrics(self, metrics: Sequence[Metric], round_state: RoundState) -> Any:
        """Return a bank whose learners hold the given metrics in this round: a warm-up bank or the compiled bank."""
        if round_state.round <= WARMUP_ROUNDS:
            return self._with(self._definition.with_metrics(metrics, round_state))
        return self._compiled().with_metrics(metrics, round_state)

    def metrics(self, round_state: RoundState) -> list[Metric]:
        """Return the metrics of the active learners, the finest scale first."""
        return self._definition.metrics(round_state)

    def observe(self, event: Event | Pair | Relative, round_state: RoundState) -> tuple[Any, Self]:
        """Return each learner's loss on the event and a bank whose learners have learned from it."""
        losses, definition = self._definition.observe(event, round_state)
        return losses, self._with(definition)

    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics."""
        return self._definition.mix(round_state)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return the state of the definition's learners."""
        arrays, metadata = self._definition.state()
        return add_prefix("prelude", arrays), {"engine": self.engine, "prelude": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Any:
        """Return the bank whose ``state`` was saved: a warm-up bank or the compiled bank."""
        if not saved.has_value("prelude"):
            return self._compiled().with_state(saved, round_state)
        saved.expect("engine", self.engine)
        return self._with(self._definition.with_state(saved.section("prelude"), round_state))

    def _with(self, definition: RiceBank) -> Self:
        return type(self)(definition, self.engine, self._compiled)
