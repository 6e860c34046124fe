"""What a run says about itself: facts, never tensors.

The training loop, with each event beside the line that causes it:

    model = Net()                               ModelSeen         after its first forward
    optimizer = SGD(model.parameters())         OptimizerRebuilt  only if an earlier one held the same parameters
    model.load_state_dict(torch.load(path))     FileLoaded; Resumed after the first step that follows
    scheduler = CosineAnnealingLR(optimizer)    ScheduleBuilt
    for epoch in range(10):
        for x, y in loader:                     EpochStarted      once per pass over a loader
            out = model(x)                      Forward           when its fate is known: trained, dropped, graphless
            loss = criterion(out, y)            LossComputed, OutputsCompared
            loss.backward()                     Backward, GraphsAlive, ActivationsMeasured
            clip_grad_norm_(...)                Clipped
            optimizer.step()                    Stepped, GradientsMeasured, ParametersAccounted, IdenticalUnits
                                                SteppedWhileEvaluating  only if the model was in eval mode
                                                WeightsCompared, WeightsMoved, FrozenMoved, FrozenStatisticsMoved
                                                DecaySeen         on the first step, if it decays weights
                                                TieBroken         only if two names no longer share a weight
            optimizer.zero_grad()               (the next Stepped.cleared)
        scheduler.step()                        ScheduleStepped, PlateauStepped
        model.eval()                            ModeSet
        best = model.state_dict()               StateReused       only if it is used after the weights changed
                                                StatesKept        only if earlier ones are still kept
        torch.save(best, path)                  FileWritten
    end of the run                              ScheduleEnded, LossCurve, LossAgainstChance, BackwardTried
    replays of a forward                        BatchIndependenceTested, CausalityTested, EvaluationRepeated
                                                NotFinite         the first NaN or Inf, and where it arose

Three training steps and two evaluation calls are also recorded operation by operation: StepProgram (`program.py`).

Events about data, number formats, several ranks and time are described in the files of those names.

Every event is a frozen, slotted dataclass of numbers, names, shapes and places, so that it can be written to disk and
checked again by newer rules, on a machine without torch. `step` counts the optimizer steps taken before it.
"""

from typing import Final

from trueloop.event.base import *
from trueloop.event.base import Event
from trueloop.event.checkpoint import *
from trueloop.event.copies import *
from trueloop.event.data import *
from trueloop.event.files import *
from trueloop.event.final_state import *
from trueloop.event.gradient import *
from trueloop.event.inputs import *
from trueloop.event.loss import *
from trueloop.event.mode import *
from trueloop.event.model import *
from trueloop.event.optimizer import *
from trueloop.event.parallel import *
from trueloop.event.precision import *
from trueloop.event.program import *
from trueloop.event.run import *
from trueloop.event.settings import *
from trueloop.event.speed import *

EVENTS: Final[dict[str, type[Event]]] = {
    name: value
    for name, value in dict(globals()).items()
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
}  # Every event by its name, as written in a recorded run
