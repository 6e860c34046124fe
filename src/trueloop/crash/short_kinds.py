"""The kinds of crash that a message and one look at the scene explain; one function each."""

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from trueloop.crash.explanation import Explanation, described, spot, written
from trueloop.crash.origin import built, layer_input, origin, origins
from trueloop.crash.scene import Scene
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.results.check import counted
from trueloop.usercode.ownership import class_source
from trueloop.usercode.source import called_name, calls_in

__all__ = ["explain_device_assert", "explain_empty_optimizer", "explain_lone_sample", "explain_no_accelerator"]
__all__ += ["explain_no_forward", "explain_not_scalar", "explain_ragged_batch", "explain_rnn_state"]
__all__ += ["explain_number_backward", "explain_shrunk_away", "explain_to_numpy"]

_NO_DEVICE: Final = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available|invalid device ordinal"
    r"|Attempting to deserialize object on a CUDA device"
)
_NO_FORWARD: Final = re.compile(r'Module \[(\w+)\] is missing the required "forward" function')
_RAGGED: Final = re.compile(
    r"stack expects .*equal size, but got (\[.*?\]) at entry (\d+) and (\[.*?\]) at entry (\d+)"
)
_RNN_STATE: Final = re.compile(r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]")
_SHRUNK: Final = re.compile(
    "Kernel size can't be greater than actual input size|Output size is too small|kernel size should be smaller than"
)
_NUMBER: Final = re.compile(r"'(float|int|numpy\.\w+)' object has no attribute 'backward'")
_TO_NUMPY: Final = re.compile(r"can't convert (\S+) device type tensor to numpy")


# -- devices --


def explain_device_assert(scene: Scene) -> Explanation | None:
    """A GPU kernel found an index or a label out of range and stopped. After that, tensors on the device can no longer
    be read. Shapes and CPU tensors still can."""
    if "device-side assert triggered" not in scene.message:
        return None
    return scene.explanation(
        "A GPU kernel found a value out of range. Almost always it is a label outside the classes, or an index outside "
        "an embedding. CUDA runs asynchronously, so the line shown may come after the one at fault.",
        tuple(dict.fromkeys(_ranges(scene)))[:6],
        "Run once on the CPU, or with CUDA_LAUNCH_BLOCKING=1 in the environment: both stop at the line at fault.",
    )


def _ranges(scene: Scene) -> Iterator[str]:
    for step in scene.users:
        for name, value in list(step.locals.items()):
            integers = isinstance(value, Tensor) and not value.is_floating_point() and not value.is_complex()
            if integers and value.device.type == "cpu" and value.numel():
                yield f"`{name}`, {described(value)}, holds values from {int(value.min())} to {int(value.max())}."
    for _, model in scene.modules():
        for path, module in model.named_modules():
            if isinstance(module, nn.Embedding):
                yield f"`{path or type(model).__name__}` is an embedding of {module.num_embeddings} rows."
    for step in scene.beyond:
        scores = step.locals.get("input")
        if step.function in CLASS_LOSSES and isinstance(scores, Tensor) and scores.ndim > 1:
            yield f"The predictions are {described(scores)}: labels must be 0 to {scores.shape[1] - 1}."


def explain_no_accelerator(scene: Scene) -> Explanation | None:
    """The script uses a device that this machine, or this build of torch, does not have."""
    found = _NO_DEVICE.search(scene.message)
    if found is None:
        return None
    count = torch.cuda.device_count()
    has = f"torch {torch.__version__} sees {counted(count, 'CUDA device')} here"
    if "deserialize" in found[0]:
        message = f"The file was saved from a CUDA device, but {has}."
        fix = 'Load it with torch.load(…, map_location="cpu").'
    elif "ordinal" in found[0]:
        message = f"The script asks for a CUDA device number that does not exist: {has}, numbered from 0."
        fix = f"Use cuda:0 to cuda:{count - 1}." if count > 1 else "Use cuda:0."
    else:
        build = "; this torch was built without CUDA" if torch.version.cuda is None else ""
        message = f"The script asks for a CUDA device, but {has}{build}."
        fix = 'Choose the device that exists: device = "cuda" if torch.cuda.is_available() else "cpu".'
    return scene.explanation(message, (), fix)


def explain_to_numpy(scene: Scene) -> Explanation | None:
    """A tensor that requires grad, or that is not on the CPU, cannot become a numpy array."""
    away, graph = _TO_NUMPY.search(scene.message), "Can't call numpy() on Tensor that requires grad"
    if (graph not in scene.message and away is None) or "DataLoader worker process" in scene.message:
        return None
    tensors = scene.tensors()
    receivers = (step.locals.get("self") for step in scene.beyond)
    inner = next((value for value in receivers if isinstance(value, Tensor)), None)
    tensor = inner if inner is not None else next((value for _, value in tensors), None)
    node = next((node for node, value in tensors if value is tensor), None)
    what = "The tensor" if tensor is None or node is None else f"{scene.named(node, '')} ({described(tensor)})"
    chain = ".detach()" if away is None or (tensor is not None and tensor.requires_grad) else ""
    if away is None:
        message = f"{what} still belongs to the autograd graph. A numpy array would silently lose it, so torch refuses."
    else:
        message, chain = f"{what} is on {away[1]}, but numpy reads CPU memory only.", f"{chain}.cpu()"
    name = scene.crash.text(node) if node is not None else "x"
    return scene.explanation(message, origins(scene, node), f"Write {name}{chain}.numpy(), or .item() for one number.")


# -- models, losses and optimizers --


def explain_empty_optimizer(scene: Scene) -> Explanation | None:
    """An optimizer was built without parameters."""
    if "optimizer got an empty parameter list" not in scene.message:
        return None
    argument = scene.argument()
    function = argument.func if isinstance(argument, ast.Call) else None
    module = scene.crash.value(function.value) if isinstance(function, ast.Attribute) else None
    if function is None or not isinstance(module, nn.Module) or not ast.unparse(function).endswith("parameters"):
        message = f"{scene.named(argument, 'The argument of the optimizer')} contains no parameters."
        fix = "Pass a list, or call model.parameters() here: an iterator can be read only once."
        return scene.explanation(message, origins(scene, argument), fix)
    name, hidden = scene.crash.text(function).rpartition(".")[0], _hidden(module)
    message = f"`{name}` ({type(module).__name__}) has no parameters, so there is nothing to optimize."
    if not hidden:
        return scene.explanation(message, (), "Build its layers in __init__, as attributes of the module.")
    kind = type(vars(module)[hidden]).__name__
    detail = f"`{name}.{hidden}` holds modules in a plain {kind}, which nn.Module does not search for parameters."
    fix = f"Use nn.ModuleList or nn.ModuleDict: self.{hidden} = nn.ModuleList(…)."
    return scene.explanation(message, (detail,), fix)


def _hidden(module: nn.Module) -> str:
    """An attribute that holds modules in a plain container."""
    for name, value in vars(module).items():
        parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        if not name.startswith("_") and any(isinstance(part, nn.Module) for part in parts):
            return name
    return ""


def explain_no_forward(scene: Scene) -> Explanation | None:
    """The script calls a module that has no forward method."""
    found = _NO_FORWARD.search(scene.message)
    owners = (step.owner for step in reversed(scene.beyond) if step.owner is not None)
    module = scene.layer.module if scene.layer is not None else next(owners, None)
    if found is None or module is None:
        return None
    users = class_source(type(module))
    source = scene.crash.source if users is None else users[0]
    tree = source.class_named(found[1])
    functions = [node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.FunctionDef)]
    nested = next((f for f in functions if f.name == "forward" and tree is not None and f not in tree.body), None)
    near = get_close_matches("forward", [function.name for function in functions], n=1, cutoff=0.7)
    misspelled = next((function for function in functions if near and function.name == near[0]), None)
    message = f"{found[1]} has no method `forward`, which calling it would run."
    if nested is not None:
        at = source.place(nested)
        detail = f"The `forward` at {spot(at)} is indented into another method, so it does not belong to the class."
        return scene.explanation(message, (detail,), f"Remove one level of indentation at {spot(at)}.", at)
    if misspelled is not None:
        at = source.place(misspelled)
        detail = f"It has `{misspelled.name}` at {spot(at)}."
        return scene.explanation(message, (detail,), f"Rename `{misspelled.name}` to `forward`.", at)
    at = source.place(tree) if tree is not None else scene.place
    return scene.explanation(message, (), f"Add `def forward(self, x):` to the class at {spot(at)}.", at)


def explain_not_scalar(scene: Scene) -> Explanation | None:
    """Backward was called on a tensor with more than one element."""
    root, receiver = scene.backward_root, scene.receiver
    if "implicitly created only for scalar outputs" not in scene.message or root is None or receiver is None:
        return None
    name, came_from = scene.crash.text(receiver), origin(scene, scene.crash, receiver)
    calls = calls_in(came_from.statement) if came_from.statement is not None else ()
    fix = "Remove reduction='none', or reduce" if any(_is_unreduced(scene, call) for call in calls) else "Reduce"
    message = f"`backward()` needs a scalar, but `{name}` is {described(root)} with {root.numel()} elements."
    return scene.explanation(message, came_from.lines, f"{fix} it first: {name}.mean().backward().")


def explain_number_backward(scene: Scene) -> Explanation | None:
    """Backward was called on a number: `loss.item()` has no graph."""
    found = _NUMBER.search(scene.message)
    receiver = scene.receiver or getattr(scene.crash.node, "value", None)
    if found is None or not isinstance(receiver, ast.expr) or not isinstance(scene.error, AttributeError):
        return None
    name, came_from = scene.crash.text(receiver), origin(scene, scene.crash, receiver)
    statement = came_from.statement if isinstance(came_from.statement, ast.Assign) else receiver
    taken = next((call for call in calls_in(statement) if called_name(call) in ("item", "float", "tolist")), None)
    message = f"`{name}` is a Python number ({found[1]}), not a tensor: it has no graph to go backward through."
    if taken is None:
        fix = "Keep the loss as a tensor until backward has run; take .item() only for printing and sums."
        return scene.explanation(message, came_from.lines, fix)
    kept = taken.func.value if isinstance(taken.func, ast.Attribute) else (taken.args or [taken])[0]
    detail = f"`{ast.unparse(taken)}` returns a number and drops the graph."
    fix = f"Call backward on the tensor, `{ast.unparse(kept)}`, and take .item() after it, for printing and sums."
    place = came_from.place if statement is not receiver else None
    return scene.explanation(message, (detail,), fix, place or scene.place)


def _is_unreduced(scene: Scene, call: ast.Call) -> bool:
    given = {keyword.arg: scene.crash.value(keyword.value) for keyword in call.keywords}
    return "none" in (getattr(scene.crash.value(call.func), "reduction", ""), given.get("reduction"))


# -- shapes of batches --


def explain_lone_sample(scene: Scene) -> Explanation | None:
    """Batch normalization in training mode got one value per channel, which has no variance."""
    layer, sign = scene.layer, "Expected more than 1 value per channel when training"
    if sign not in scene.message or layer is None or not isinstance(layer.given, Tensor):
        return None
    given = f"{layer.title} is in training mode and got {described(layer.given)}"
    message = f"{given}: one value per channel has no variance."
    short = _last_batch(scene) if layer.given.shape[0] == 1 else None
    if short is not None:
        name, samples, batch = short
        detail = f"`{name}` has {samples} samples in batches of {batch}: the last batch has only one."
        return scene.explanation(message, (detail,), f"Build `{name}` with drop_last=True, or change the batch size.")
    fix = "Train on batches of at least 2 samples. To run the model on a single sample, call model.eval() first."
    return scene.explanation(message, layer_input(scene, layer)[1].lines, fix)


def _last_batch(scene: Scene) -> tuple[str, int, int] | None:
    """The loader whose last batch has one sample: its name, samples and batch size."""
    for step in scene.users:
        for name, value in list(step.locals.items()):
            if isinstance(value, DataLoader) and value.batch_size and not value.drop_last and value.batch_size > 1:
                try:
                    samples = len(value.sampler)  # type: ignore[arg-type]
                except TypeError:  # a stream has no length
                    continue
                if samples % value.batch_size == 1:
                    return name, samples, value.batch_size
    return None


def explain_ragged_batch(scene: Scene) -> Explanation | None:
    """The samples of a batch have different sizes, so the loader cannot stack them."""
    found = _RAGGED.search(scene.message)
    collating = any(step.function in ("collate", "default_collate", "collate_tensor_fn") for step in scene.beyond)
    if found is None or not (collating or "_utils/collate.py" in scene.message):
        return None
    batch = scene.library_local(("collate_tensor_fn",), "batch")
    parts = batch if isinstance(batch, (list, tuple)) else ()
    sizes = list(dict.fromkeys(written(part.shape) for part in parts if isinstance(part, Tensor)))
    loaders = [value for step in scene.users for value in step.locals.values() if isinstance(value, DataLoader)]
    details = [f"Sizes in this batch: {', '.join(sizes[:6])}{', …' if len(sizes) > 6 else ''}."] if sizes else []
    if len(loaders) == 1:
        dataset = type(loaders[0].dataset).__name__
        details.append(f"The samples come from {dataset}; {spot(scene.place)} reads the loader.")
    pair = f"sample {found[2]} is {found[1]}, sample {found[4]} is {found[3]}"
    return scene.explanation(
        f"The samples of one batch differ in size, so they cannot be stacked: {pair}.",
        tuple(details),
        "Bring them to one size in the dataset (resize, crop), or pad them in the loader's collate_fn "
        "with torch.nn.utils.rnn.pad_sequence.",
    )


def explain_rnn_state(scene: Scene) -> Explanation | None:
    """The hidden state passed to a recurrent layer does not fit the size of this batch."""
    found, layer = _RNN_STATE.search(scene.message), scene.layer
    if found is None or layer is None or not isinstance(layer.module, nn.RNNBase):
        return None
    if not isinstance(layer.given, Tensor):
        return None
    wanted, got = ([int(part) for part in group.split(",")] for group in found.groups())
    state, first = scene.argument(1), layer.module.batch_first
    fix = f"Create the state for this batch: torch.zeros({wanted[0]}, x.size({0 if first else 1}), {wanted[-1]})."
    if len(wanted) == len(got) == layer.given.ndim == 3 and got[1] == layer.given.shape[1 if first else 0] != wanted[1]:
        read_as = f"The state has {got[1]} samples, but the layer reads that dimension as time steps"
        fix = f"{read_as}: set batch_first={not first}, or swap the input's first two dimensions."
    order = "(batch, steps, features)" if first else "(steps, batch, features)"
    needs = f"{layer.title} needs a hidden state of {wanted} for this batch"
    message = f"{needs}, but {scene.named(state, 'the hidden state')} is {got}."
    detail = f"Its input is {described(layer.given)}, read as {order}."
    return scene.explanation(message, (detail, *origins(scene, state)), fix)


def explain_shrunk_away(scene: Scene) -> Explanation | None:
    """An image became smaller than the next kernel or pooling window."""
    if _SHRUNK.search(scene.message) is None:
        return None
    layer, argument = scene.layer, scene.argument()
    if layer is not None:
        name, came_from = layer_input(scene, layer)
        given, who, where = layer.given, layer.title, built(scene, layer)
        window = getattr(layer.module, "kernel_size", None)
    else:
        name, came_from = scene.named(argument, "the input"), origin(scene, scene.crash, argument)
        given, who, where, window = scene.crash.value(argument), spot(scene.place), None, None
    if not isinstance(given, Tensor):
        return None
    needs = "needs a larger input" if window is None else f"slides a window of {window} over it"
    message = f"{name} has shrunk to {described(given)} and {who} {needs}: the output would be empty."
    fix = "Use larger images, remove a pooling layer or a stride before it, or add padding."
    return scene.explanation(message, (*came_from.lines, *(() if where is None else (where.line,))), fix)
