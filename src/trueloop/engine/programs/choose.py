"""The program that a recipe asks for."""

from trueloop.engine.parts import Parts
from trueloop.engine.programs.compiled_step import CompiledStep
from trueloop.engine.programs.cuda_graphs import CudaGraphs
from trueloop.engine.programs.eager import Eager
from trueloop.engine.programs.own_step import OwnStep
from trueloop.engine.programs.program import Program
from trueloop.engine.state import State

__all__ = ["choose_program"]


def choose_program(parts: Parts, state: State) -> Program:
    if parts.recipe.step is not None:
        return OwnStep(parts, state)
    if parts.strategy.stages > 1:
        from trueloop.engine.programs.pipeline import Pipeline  # torch takes its time to load this

        return Pipeline(parts, state)
    match parts.recipe.program:
        case "cuda_graphs":
            return CudaGraphs(parts, state)
        case "compiled_step":
            return CompiledStep(parts, state)
        case _:
            return Eager(parts, state)
