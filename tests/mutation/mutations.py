"""The mechanical bugs: each rewrites the syntax tree wherever it can be made, and says which rules have to catch it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.mutation.syntax import Site, calls_method, copies, is_call_of, statement

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True)
class Mutation:
    name: str
    rules: tuple[str, ...]
    """Any of these catches it."""
    mutants: Callable[[ast.Module], Iterator[ast.Module]]


MUTATIONS: list[Mutation] = []


def mutation(name: str, *rules: str) -> Callable[[Callable[[ast.Module], Iterator[ast.Module]]], None]:
    def add(mutants: Callable[[ast.Module], Iterator[ast.Module]]) -> None:
        MUTATIONS.append(Mutation(name, rules, mutants))

    return add


# -- gradients --


@mutation("drop zero_grad", "gradients-never-cleared")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    """All of them: one of two may be enough."""
    optimizers = {ast.unparse(n.value.func.value) for n in ast.walk(tree) if calls_method(n, "zero_grad")}  # type: ignore[attr-defined]
    for optimizer in sorted(optimizers):
        yield from _without(tree, lambda node, optimizer=optimizer: calls_method(node, "zero_grad", optimizer))  # type: ignore[misc]


@mutation("zero_grad between backward and step", "gradients-cleared-before-step")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> None:
        statements, index = site.block()
        statements.insert(index, statement(f"{_receiver(site.node)}.zero_grad()"))

    yield from copies(tree, lambda node: calls_method(node, "step", "optimizer"), change)


@mutation("drop optimizer.step", "optimizer-never-stepped")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from copies(tree, lambda node: calls_method(node, "step", "optimizer"), Site.remove)


@mutation("step before backward", "step-without-gradient", "gradients-cleared-before-step")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        statements, index = site.block()
        back = [i for i, node in enumerate(statements[:index]) if calls_method(node, "backward")]
        if not back:
            return False
        statements.insert(back[-1], statements.pop(index))
        return None

    yield from copies(tree, lambda node: calls_method(node, "step", "optimizer"), change)


@mutation("clip after the step", "clipped-after-step")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        statements, index = site.block()
        steps = [i for i, node in enumerate(statements) if i > index and calls_method(node, "step", "optimizer")]
        if not steps:
            return False
        statements.insert(steps[0], statements.pop(index))
        return None

    yield from copies(tree, lambda node: calls_method(node, "clip_grad_norm_"), change)


@mutation("accumulate without dividing", "accumulation-not-averaged")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and "accum" in ast.unparse(node.right)

    yield from copies(tree, wanted, lambda site: site.replace(site.node.left))  # type: ignore[attr-defined]


@mutation("detach inside the model", "loss-detached-from-parameters", "unused-parameters")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("features", "hidden", "output, _")

    def change(site: Site) -> bool | None:
        if not any(isinstance(parent, ast.FunctionDef) and parent.name == "forward" for parent in site.parents()):
            return False
        name = ast.unparse(site.node.targets[0]).split(",")[0]  # type: ignore[attr-defined]
        statements, index = site.block()
        statements.insert(index + 1, statement(f"{name} = {name}.detach()"))
        return None

    yield from copies(tree, wanted, change)


@mutation("keep the loss with its graph", "graph-never-freed")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node) == "loss.item()"

    yield from copies(tree, wanted, lambda site: site.replace(ast.Name("loss")))


@mutation("carry the hidden state without detach", "backward-through-earlier-steps")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> None:
        site.remove()
        for node in ast.walk(site.tree):
            if is_call_of(node, "backward"):
                node.keywords.append(ast.keyword("retain_graph", ast.Constant(True)))  # type: ignore[attr-defined]

    yield from copies(
        tree, lambda node: isinstance(node, ast.Assign) and ast.unparse(node) == "hidden = hidden.detach()", change
    )


# -- losses --


def _inputs_of(tree: ast.Module, names: tuple[str, ...], texts: tuple[str, ...]) -> set[int]:
    """Positions in a walk of the first arguments of calls of the loss of this kind."""
    firsts = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and (is_call_of(node, *names) or ast.unparse(node.func) in texts)
    }
    return {index for index, node in enumerate(ast.walk(tree)) if id(node) in firsts}


def _wrapped_inputs(tree: ast.Module, kind: str, function: str, template: str) -> Iterator[ast.Module]:
    """Every call of the loss gets its input changed: in training and in validation alike."""
    built = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and is_call_of(n.value, kind)]
    texts = tuple(ast.unparse(node.targets[0]) for node in built)
    if not built and not any(is_call_of(node, function) for node in ast.walk(tree)):
        return
    positions = _inputs_of(tree, (function,), texts)

    def change(site: Site) -> None:
        nodes = list(ast.walk(site.tree))
        for index in positions:
            there = Site(site.tree, nodes[index], site.above)
            there.replace(ast.parse(template.format(ast.unparse(nodes[index])), mode="eval").body)

    yield from copies(tree, lambda node: node is tree, change)


@mutation("softmax before cross entropy", "softmax-before-cross-entropy")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from _wrapped_inputs(tree, "CrossEntropyLoss", "cross_entropy", "torch.softmax({}, dim=-1)")


@mutation("sigmoid before BCE with logits", "sigmoid-before-bce-with-logits")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from _wrapped_inputs(tree, "BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "torch.sigmoid({})")


@mutation("NLL on logits", "logits-passed-as-probabilities")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from _renamed(tree, {"CrossEntropyLoss": "NLLLoss", "cross_entropy": "nll_loss"})


@mutation("squeeze a prediction away", "shapes-broadcast-in-loss")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node) == "model(x).squeeze(1)"

    yield from copies(tree, wanted, lambda site: site.replace(ast.parse("model(x)", mode="eval").body))


@mutation("squeeze a target", "shapes-broadcast-in-loss")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node) in ("loss_fn(prediction, y)",)

    yield from copies(
        tree, wanted, lambda site: site.replace(ast.parse("loss_fn(prediction, y.unsqueeze(1))", mode="eval").body)
    )


# -- models --


@mutation("a plain list of layers", "layers-in-a-plain-list")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from copies(tree, lambda node: is_call_of(node, "ModuleList"), lambda site: site.replace(site.node.args[0]))  # type: ignore[attr-defined]


@mutation("equal initial weights", "symmetric-initialization", "output-ignores-input")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    """Not where there is dropout, which tells equal units apart in the first step."""

    def change(site: Site) -> bool | None:
        if "ropout" in ast.unparse(site.tree):
            return False
        statements, index = site.block()
        name = ast.unparse(site.node.targets[0])  # type: ignore[attr-defined]
        constant = f"for parameter in {name}.parameters():\n    torch.nn.init.constant_(parameter, 0.01)"
        statements.insert(index + 1, statement(constant))
        return None

    yield from copies(tree, _builds_a_model, change)


@mutation("see the future", "future-leakage")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.keyword) and node.arg == "is_causal"

    yield from copies(tree, wanted, lambda site: setattr(site.node, "value", ast.Constant(False)))


@mutation("mix the samples", "samples-mixed-in-batch")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.keyword) and node.arg == "batch_first"

    yield from copies(tree, wanted, lambda site: setattr(site.node, "value", ast.Constant(False)))


# -- optimizers and schedules --


def _builds_an_optimizer(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and is_call_of(node.value, "SGD", "Adam", "AdamW")


def _builds_a_model(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("model", "generator", "discriminator")


@mutation("optimize the head only", "parameters-not-in-optimizer")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        whole = ast.unparse(site.tree)
        head = next((name for name in ("head", "classifier", "decoder") if f"self.{name} = " in whole), None)
        node = site.node
        assert isinstance(node, ast.Assign)
        assert isinstance(node.value, ast.Call)
        if head is None:
            return False
        node.value.args[0] = ast.parse(f"model.{head}.parameters()", mode="eval").body
        return None

    yield from copies(tree, _builds_an_optimizer, change)


@mutation(
    "copy the model after the optimizer is built", "optimizer-holds-old-parameters", "loss-detached-from-parameters"
)
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> None:
        statements, index = site.block()
        name = next(n for n in ("generator", "discriminator", "model") if f"{n}.parameters()" in ast.unparse(site.node))
        statements.insert(index + 1, statement(f"{name} = __import__('copy').deepcopy({name})"))

    yield from copies(tree, _builds_an_optimizer, change)


@mutation("build the optimizer in every step", "optimizer-recreated-every-step")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        name = ast.unparse(site.node.targets[0])  # type: ignore[attr-defined]
        steps = [node for node in ast.walk(site.tree) if calls_method(node, "step") and _receiver(node) == name]
        loops = Site(site.tree, steps[0], site.above).loops()
        if not loops:
            return False  # the loop is in another function
        loops[0].body.insert(0, site.node)  # type: ignore[arg-type]
        return None

    yield from copies(tree, _builds_an_optimizer, change)


TOO_HIGH = ("learning-rate-too-high", "loss-diverges", "nan-or-inf", "exploding-gradients", "dead-relu-units")
"""What a rate that is too high does first depends on the loss and the optimizer."""


@mutation("a learning rate 1,000 times too high", *TOO_HIGH)
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from _scaled_rate(tree, 1e3)


@mutation("a learning rate 1,000,000 times too low", "learning-rate-too-low")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from _scaled_rate(tree, 1e-6)


@mutation("drop scheduler.step", "scheduler-never-stepped")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from copies(tree, lambda node: calls_method(node, "step", "scheduler"), Site.remove)


@mutation("scheduler.step once per batch", "scheduler-epoch-batch-mismatch")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        if len(site.loops()) != 1 or site.node.value.args:  # type: ignore[attr-defined]
            return False  # it stands in the loop over batches already
        place = _block_of_the_step(site.tree)
        if place is None or place[0] is site.block()[0]:
            return False
        site.remove()
        place[0].insert(place[1] + 1, statement("scheduler.step()"))
        return None

    yield from copies(tree, lambda node: calls_method(node, "step", "scheduler"), change)


@mutation("scheduler.step before optimizer.step", "scheduler-stepped-before-optimizer")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        loops = site.loops()
        if not loops or site.node.value.args:  # type: ignore[attr-defined]
            return False
        site.remove()
        loops[0].body.insert(0, statement("scheduler.step()"))
        return None

    yield from copies(tree, lambda node: calls_method(node, "step", "scheduler"), change)


@mutation("scheduler.step once per epoch instead of per batch", "scheduler-epoch-batch-mismatch")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def change(site: Site) -> bool | None:
        loops = site.loops()
        if len(loops) < 2:
            return False
        site.remove()
        loops[1].body.append(statement("scheduler.step()"))
        return None

    yield from copies(tree, lambda node: calls_method(node, "step", "scheduler"), change)


@mutation("watch the wrong way on a plateau", "plateau-wrong-mode-or-metric")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.keyword) and node.arg == "mode" and ast.unparse(node.value) == "'min'"

    yield from copies(tree, wanted, lambda site: setattr(site.node, "value", ast.Constant("max")))


# -- modes --


@mutation("drop eval", "evaluated-in-train-mode")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from _without(tree, lambda node: calls_method(node, "eval"))


@mutation("drop train", "trained-in-eval-mode")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    if any(calls_method(node, "eval") for node in ast.walk(tree)):
        yield from _without(tree, lambda node: calls_method(node, "train"))


@mutation("drop no_grad", "evaluation-without-no-grad")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.With) and "no_grad" in ast.unparse(node.items[0])

    def change(site: Site) -> None:
        statements, index = site.block()
        statements[index : index + 1] = site.node.body  # type: ignore[attr-defined]

    yield from copies(tree, wanted, change)

    def decorated(node: ast.AST) -> bool:
        return isinstance(node, ast.FunctionDef) and any("no_grad" in ast.unparse(d) for d in node.decorator_list)

    yield from copies(tree, decorated, lambda site: site.node.decorator_list.clear())  # type: ignore[attr-defined]


@mutation("dropout that never rests", "dropout-always-on")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    with_keywords = lambda node: is_call_of(node, "dropout") and bool(node.keywords)  # noqa: E731
    yield from copies(tree, with_keywords, lambda site: site.node.keywords.clear())  # type: ignore[attr-defined]


# -- data and checkpoints --


@mutation("drop shuffle", "same-order-every-epoch", "not-shuffled")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.keyword) and node.arg == "shuffle"

    yield from copies(tree, wanted, lambda site: setattr(site.node, "value", ast.Constant(False)))


@mutation("drop the normalization", "inputs-not-normalized")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    def wanted(node: ast.AST) -> bool:
        return isinstance(node, ast.Assign) and ast.unparse(node) == "pixels = (raw / 255 - 0.5) / 0.29"

    yield from copies(tree, wanted, lambda site: setattr(site.node, "value", ast.Name("raw")))


@mutation("validate on training rows too", "train-validation-overlap")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    """`data[512:]` becomes `data[384:]`: a quarter more, and seen in training."""

    def change(site: Site) -> bool | None:
        slices = [
            n
            for n in ast.walk(site.node)
            if isinstance(n, ast.Slice) and isinstance(n.lower, ast.Constant) and n.upper is None
        ]
        for part in slices:
            part.lower = ast.Constant(int(part.lower.value * 3 // 4))  # type: ignore[union-attr]
        return bool(slices)

    yield from copies(tree, lambda node: isinstance(node, ast.Assign) and is_call_of(node.value, "DataLoader"), change)


@mutation("drop the copy of the best weights", "best-weights-not-copied")
def _(tree: ast.Module) -> Iterator[ast.Module]:
    yield from copies(tree, lambda node: is_call_of(node, "deepcopy"), lambda site: site.replace(site.node.args[0]))  # type: ignore[attr-defined]


# -- what several of them share --


def _receiver(node: ast.AST) -> str:
    assert isinstance(node, ast.Expr)
    assert isinstance(node.value, ast.Call)
    assert isinstance(node.value.func, ast.Attribute)
    return ast.unparse(node.value.func.value)


def _without(tree: ast.Module, unwanted: Callable[[ast.AST], bool]) -> Iterator[ast.Module]:
    """One mutant without any statement of this kind."""

    def change(site: Site) -> bool | None:
        doomed = [node for node in ast.walk(site.tree) if unwanted(node)]
        for node in doomed:
            Site(site.tree, node, site.above).remove()
        return bool(doomed)

    yield from copies(tree, lambda node: node is tree, change)


def _renamed(tree: ast.Module, names: dict[str, str]) -> Iterator[ast.Module]:
    """One mutant with each of these attributes named otherwise."""

    def change(site: Site) -> bool | None:
        found = [node for node in ast.walk(site.tree) if isinstance(node, ast.Attribute) and node.attr in names]
        for node in found:
            node.attr = names[node.attr]
        return bool(found)

    yield from copies(tree, lambda node: node is tree, change)


def _scaled_rate(tree: ast.Module, factor: float) -> Iterator[ast.Module]:
    """Every learning rate that is written as a number, those of the schedule too."""

    def change(site: Site) -> bool | None:
        named = [n for n in ast.walk(site.tree) if isinstance(n, ast.keyword) and n.arg in ("lr", "max_lr")]
        rates = [n.value for n in named if isinstance(n.value, ast.Constant)]
        for rate in rates:
            rate.value = rate.value * factor  # type: ignore[operator]
        return bool(rates)

    yield from copies(tree, lambda node: node is tree, change)


def _block_of_the_step(tree: ast.Module) -> tuple[list[ast.stmt], int] | None:
    """Where the optimizer is stepped in the loop over batches of the main program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            for index, one in enumerate(node.body):
                if calls_method(one, "step", "optimizer"):
                    return node.body, index
    return None
