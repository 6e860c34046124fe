"""A recipe's data, read so that the same recipe gives the same split."""

from trueloop.data.accept import as_splits
from trueloop.data.source import Splits
from trueloop.engine.loader_stream import as_stream
from trueloop.engine.sample_order import mix_seed
from trueloop.measure.randomness import fence
from trueloop.recipe.call import call_own, takes_nothing
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["read_data"]


def read_data(recipe: Recipe, request: DataRequest | None = None) -> Splits:
    """What `data` draws (`random_split`, a shuffled list) depends on the recipe's seed only: a resumed run draws the
    same split again. The random states are left as they were. Errors of the user's code pass through."""
    with fence(mix_seed(recipe.seed, 3)):  # not the seed of the weights: their numbers would repeat those of the data
        request = request or DataRequest(seed=recipe.seed)
        wanted = () if takes_nothing(recipe.data) else (request,)
        given = call_own("data", "def data(request)", recipe.data, *wanted)
        return as_splits(given, lambda each, split: as_stream(each, recipe, train=split == "train"))
