"""`--halving`: which trials are hopeless, by optuna's asynchronous successive halving."""

from typing import Any, Final, final

from trueloop.errors import MissingExtra

__all__ = ["Halving"]

FACTOR: Final = 3  # Of three trials with as many evaluations, one goes on


@final
class Halving:
    """Trials report each validation value; those behind at a rung are to be ended."""

    def __init__(self) -> None:
        try:
            import optuna
        except ImportError:
            raise MissingExtra(
                "--halving needs optuna, which is not installed. Nothing was run: `pip install 'trueloop[sweep]'`."
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna: Any = optuna
        self._study: Any = None  # Begun with the first value: only a run knows whether higher is better
        self._trials: dict[str, Any] = {}
        self._reported: dict[str, int] = {}

    def is_hopeless(self, run: str, values: list[float], *, higher_is_better: bool) -> bool:
        """`values`: all validation values of the run so far."""
        trial = self._trials.get(run) or self._begin(run, higher_is_better)
        for number in range(self._reported[run], len(values)):
            trial.report(values[number], number + 1)
            self._reported[run] = number + 1
            if trial.should_prune():
                return True
        return False

    def end(self, run: str, values: list[float], *, higher_is_better: bool, halved: bool) -> None:
        """The run has ended: later ones are compared with it too."""
        trial = self._trials.get(run) or self._begin(run, higher_is_better)
        for number in range(self._reported[run], len(values)):
            trial.report(values[number], number + 1)
            trial.should_prune()  # notes the rung that it has reached
        if values and not halved:
            self._study.tell(trial, values[-1])
        else:
            states = self._optuna.trial.TrialState
            self._study.tell(trial, state=states.PRUNED if values else states.FAIL)

    def _begin(self, run: str, higher_is_better: bool) -> Any:
        if self._study is None:
            pruner = self._optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=FACTOR)
            direction = "maximize" if higher_is_better else "minimize"
            self._study = self._optuna.create_study(direction=direction, pruner=pruner)
        self._trials[run], self._reported[run] = self._study.ask(), 0
        return self._trials[run]
