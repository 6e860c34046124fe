"""What a run says about itself: facts, never tensors.

The loop, drawn, with each event beside the line that makes it happen:

    model = Net()                                   ModelSeen       once, when its first forward has ended
    optimizer = SGD(model.parameters())             OptimizerRebuilt  only if another one held the same parameters
    before model.load_state_dict(torch.load(path))         FileOpened, Resumed  when the first step after it has been
    taken scheduler = CosineAnnealingLR(optimizer, 10)    ScheduleBuilt for epoch in range(10):
        for x, y in loader:                         EpochStarted    once per pass over a loader
            out = model(x)                          Forward         when its fate is known: trained, dropped, or
            graphless loss = criterion(out, y)                LossComputed, OutputsCompared loss.backward()
            Backward, GraphsAlive, ActivationsMeasured clip_grad_norm_(model.parameters(), 1)  Clipped optimizer.step()
            Stepped, GradientsMeasured, ParametersAccounted, UnitsCompared
                                                    SteppedWhileEvaluating  only if the model was in eval mode
                                                    WeightsCompared, WeightsMoved, FrozenMoved, FrozenStatisticsMoved
                                                    on a few steps
                                                    DecaySeen       on the first step, if it decays weights
                                                    TieBroken       only if two names had shared a weight and no longer
                                                    do
            optimizer.zero_grad()                   (seen by the next Stepped.cleared)
        scheduler.step()                            ScheduleStepped, PlateauFed
        model.eval()                                ModeSet
        best = model.state_dict()                   StateReused     only if it is used after the weights moved on
        torch.save(best, path)                      FileWritten
                                                    ScheduleEnded   one for each schedule, when the run ends
                                                    LossFollowed, ChanceCompared  the course of the losses, when the run
                                                    ends SamplesCompared, FutureCompared, EvaluationRepeated
                                                    counterfactual replays of a forward
                                                    NotFinite       the first value that is no number, and where it
                                                    arose

What is told of data, number formats, several ranks, and time is described in the files of those names.

Every event is a frozen, slotted dataclass of numbers, names, shapes and places, so that it can be written to disk and
judged again by newer rules, on a machine without torch. `step` is how many optimizer steps had been taken when it
happened.
"""

from __future__ import annotations

from typing import Final

from trueloop.event.base import *
from trueloop.event.base import Event
from trueloop.event.checkpoint import *
from trueloop.event.data import *
from trueloop.event.gradient import *
from trueloop.event.loss import *
from trueloop.event.mode import *
from trueloop.event.model import *
from trueloop.event.optimizer import *
from trueloop.event.parallel import *
from trueloop.event.precision import *
from trueloop.event.run import *
from trueloop.event.speed import *

EVENTS: Final[dict[str, type[Event]]] = {
    name: value
    for name, value in dict(globals()).items()
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
}
"""Every event by its name, as written in a recorded run."""
