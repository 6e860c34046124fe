"""Writes the winning recipe as a Python file for `trueloop train`."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from trueloop.errors import Misuse
from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Trial, Tuning, words_of

__all__ = ["MARK", "check_writable", "file_for", "write_recipe"]

MARK: Final = "Written by `trueloop tune`"  # In the docstring of files that may be overwritten


def file_for(name: str) -> Path:
    """`fashion-mlp` -> fashion_mlp_tuned.py, which Python can import."""
    stem = re.sub(r"\W", "_", name)
    return Path(f"{stem if not stem[:1].isdigit() else f'recipe_{stem}'}_tuned.py")


def check_writable(file: Path) -> None:
    """Before anything is measured. Raises Misuse."""
    if file.suffix != ".py":
        raise Misuse(f"--write {file}: a recipe is a Python file. Nothing was run: use a name that ends in .py.")
    if not file.parent.is_dir():
        raise Misuse(f"--write {file}: there is no folder {file.parent}. Nothing was run.")
    if file.is_dir():
        raise Misuse(f"--write {file} is a folder. Nothing was run: name a file.")
    try:
        _aside(file).touch()
        _aside(file).unlink()
    except OSError as error:
        raise Misuse(f"--write {file} cannot be written ({error.strerror}). Nothing was run: choose another.") from None
    if file.exists() and MARK not in file.read_text(encoding="utf-8", errors="replace"):
        raise Misuse(f"{file} exists and was not written by trueloop. Nothing was run: choose another --write FILE.")


def write_recipe(
    file: Path, tuning: Tuning, recipe: Recipe, word: str, arguments: Mapping[str, str], settings: Mapping[str, str]
) -> str:
    """Written atomically; returns the text."""
    own = {name: text for name, text in settings.items() if name in recipe.hyperparameters}
    names = [name.partition(".")[0] for name in settings if name not in own]
    values = {**{name: getattr(recipe, name) for name in names}, **tuning.best.changes}
    lines = [
        f'"""{_docstring(tuning)}"""',
        "",
        "from dataclasses import replace",
        *(["from pathlib import Path"] if _is_beside(word, file) else []),
        "",
        "from trueloop.recipes.catalogue import find_recipe",
        "",
        "recipe = replace(",
        f"    find_recipe({_named(word, file)}, {dict(arguments)!r}{f', {own!r}' if own else ''}),",
        *(f"    {name}={_plain(value)!r}," for name, value in values.items()),
        ")",
    ]
    text = "\n".join(lines) + "\n"
    _aside(file).write_text(text, encoding="utf-8")
    _aside(file).replace(file)
    return text


def _aside(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _is_beside(word: str, file: Path) -> bool:
    return word.endswith(".py") and Path(word).absolute().parent == file.absolute().parent


def _named(word: str, file: Path) -> str:
    """A user's recipe in the same folder is found relative to this file."""
    if _is_beside(word, file):
        return f"str(Path(__file__).with_name({Path(word).name!r}))"
    return repr(str(Path(word).absolute()) if word.endswith(".py") else word)


def _docstring(tuning: Tuning) -> str:
    best, reference, place = tuning.best, tuning.reference, tuning.place
    assert best.pace is not None
    assert reference.pace is not None
    when = datetime.fromtimestamp(tuning.when).astimezone().strftime("%Y-%m-%d %H:%M")
    lines = [
        f"{tuning.subject}, tuned for {tuning.objective}: {words_of(best.changes) or 'unchanged, which is the best'}.",
        "",
        f"{MARK} on {when}, on {place.name} ({place.cores} cores), torch {place.torch}, trueloop {place.trueloop}.",
        "",
        f"    reference (fp32, eager)  {_numbers(reference)}",
        f"    this                     {_numbers(best)}   {best.speed:.2f}x",
        *_proof(best),
    ]
    return "\n".join(line.replace("\\", "/").replace('"""', "'''") for line in lines) + "\n"


def _numbers(trial: Trial) -> str:
    pace = trial.pace
    assert pace is not None
    speed = f"{pace.samples_per_second:>12,.0f} samples/s  {pace.step_seconds * 1e3:>9.3f} ms/step"
    return f"{speed}  {pace.peak_bytes / 1e6:>8,.0f} MB"


def _proof(best: Trial) -> list[str]:
    same = best.agreement
    if same is None:
        return []
    metric = ""
    if same.measured:
        ours, theirs = (sum(values) / len(values) for values in (same.measured, same.reference))
        metric = f"; {same.metric} {ours:.4f} against {theirs:.4f} over {len(same.measured)} seeds"
    return [
        "",
        f"The same training as the reference, within {same.steps} steps: losses differ by at most "
        f"{same.loss_apart:.2%}",
        f"({same.loss_allowed:.1%} is rounding); cosine of the gradients at least {same.cosine:.4f} in every "
        f"layer{metric}.",
    ]
