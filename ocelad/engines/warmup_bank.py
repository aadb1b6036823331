"""WarmupBank: the definition computes the first rounds, so that nobody waits for compiled code."""

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
    from ocelad.engines.kernel_loading import Family

#: The number of rounds that the definition computes if compiled code is ready: loading that takes longer.
WARMUP_ROUNDS = 8
#: With more features the definition would be slower than loading or compiling the code.
MAX_WARMUP_FEATURES = 64
#: Seconds that the definition may take before a process compiles the kernels, and before it hands over.
SECONDS_TO_COMPILING, SECONDS_TO_HANDING_OVER = 5.0, 15.0
# Rounds between two looks whether the kernels must be compiled.
_CHECK_PERIOD = 256


class WarmupBank(MetricLearnerBank):
    """A bank that computes the first rounds by the definition and is then replaced by a compiled bank.

    After ``WARMUP_ROUNDS`` rounds it is decided in which round that happens: in the next one if compiled code is ready;
    otherwise after a number of rounds that depends on the number of features only. So results do not depend on when
    compiled code becomes ready. It is compiled in the background if a stream turns out to be long.

    Parameters
    ----------
    definition : RiceBank
    engine : {"fullrank", "lowrank"}
        The engine of the compiled bank.
    n_features : int
    compiled : callable () -> CompiledBank
        Creates the compiled bank.
    last_round : int or None
        The last round of the definition; None: undecided.
    """

    def __init__(
        self,
        definition: RiceBank,
        engine: Family,
        n_features: int,
        compiled: Callable[[], CompiledBank],
        last_round: int | None = None,
    ) -> None:
        self._definition = definition
        self.engine: Family = engine
        self._n_features = n_features
        self._compiled = compiled
        self._last_round = last_round

    def start(self, round_state: RoundState) -> Any:
        """Start the learners of the scales that begin an interval; return a warm-up bank or the compiled bank."""
        return self._replaced_if_due(self._definition.start(round_state), round_state)

    def with_metrics(self, metrics: Sequence[Metric], round_state: RoundState) -> Any:
        """Return a bank whose learners hold the given metrics in this round: a warm-up bank or the compiled bank."""
        return self._replaced_if_due(self._definition.with_metrics(metrics, round_state), round_state)

    def _replaced_if_due(self, definition: RiceBank, round_state: RoundState) -> Any:
        t, last = round_state.round, self._last_round
        if t <= WARMUP_ROUNDS:
            return self._with(definition, last)
        from ocelad.engines.kernel_loading import kernels_ready  # imports numba

        if last is None:
            is_ready = kernels_ready(self.engine, start=False)
            last = WARMUP_ROUNDS if is_ready else definition_rounds(SECONDS_TO_HANDING_OVER, self._n_features)
        if t > last:
            return self._compiled().with_metrics(definition.metrics(round_state), round_state)
        if t % _CHECK_PERIOD == 0 and t > definition_rounds(SECONDS_TO_COMPILING, self._n_features):
            kernels_ready(self.engine)  # begins to compile
        return self._with(definition, last)

    def metrics(self, round_state: RoundState) -> list[Metric]:
        """Return the metrics of the active learners, the finest scale first."""
        return self._definition.metrics(round_state)

    def observe(self, event: Event | Pair | Relative, round_state: RoundState) -> tuple[Any, Self]:
        """Return each learner's loss on the event and a bank whose learners have learned from it."""
        losses, definition = self._definition.observe(event, round_state)
        return losses, self._with(definition, self._last_round)

    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics."""
        return self._definition.mix(round_state)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return the state of the definition's learners."""
        arrays, of_definition = self._definition.state()
        metadata: Metadata = {"engine": self.engine, "prelude": of_definition}
        if self._last_round is not None:
            metadata["prelude_rounds"] = self._last_round
        return add_prefix("prelude", arrays), metadata

    def with_state(self, saved: StateReader, round_state: RoundState) -> Any:
        """Return the bank whose ``state`` was saved: a warm-up bank or the compiled bank."""
        if not saved.has_value("prelude"):
            return self._compiled().with_state(saved, round_state)
        saved.expect("engine", self.engine)
        last = saved.integer("prelude_rounds", WARMUP_ROUNDS, 2**53) if saved.has_value("prelude_rounds") else None
        return self._with(self._definition.with_state(saved.section("prelude"), round_state), last)

    def _with(self, definition: RiceBank, last_round: int | None) -> Self:
        return type(self)(definition, self.engine, self._n_features, self._compiled, last_round)


def definition_rounds(seconds: float, n_features: int) -> int:
    """Return about how many rounds the definition computes in this time, on a machine of 2020.

    >>> definition_rounds(15.0, 25), definition_rounds(15.0, 64)
    (20168, 5654)
    """
    return int(seconds / (4e-4 + 5.5e-7 * n_features**2))
