"""Which strategy a recipe's run has, with the processes that are there; BadRecipe for what they cannot do."""

import os

import torch

from trueloop.errors import BadRecipe
from trueloop.parallel.peers import Group, find_peers
from trueloop.parallel.replicated import Replicated
from trueloop.parallel.strategy import Single, Strategy
from trueloop.recipe.recipe import Recipe

__all__ = ["choose"]


def choose(recipe: Recipe, device: torch.device) -> Strategy:
    """`auto`: none in one process, ddp in several. Raises BadRecipe. All processes call this together."""
    peers, asked = find_peers(device), recipe.parallel
    if not isinstance(peers, Group):
        note = f"parallel: none instead of {asked}: there is one process (use --nproc N)"
        return Single("" if asked in ("auto", "none") else note)
    if asked == "none":
        cure = "use parallel=ddp, or leave --nproc out"
        raise BadRecipe(f"parallel=none needs one process, and there are {peers.world}. Nothing was run: {cure}.")
    if asked in ("auto", "ddp"):
        return Replicated(
            peers,
            after=recipe.program == "compiled_step" or recipe.step is not None,
            note=_ddp_note(recipe, peers.world),
        )
    if asked == "pp":
        return _pipelined(recipe, peers, device)
    return _sharded(recipe, peers, device)


def _ddp_note(recipe: Recipe, world: int) -> str:
    why = "" if recipe.parallel == "ddp" else " (auto)"
    return f"parallel: ddp{why} over {world} processes, which share each batch of {recipe.batch:,}"


def _pipelined(recipe: Recipe, peers: Group, device: torch.device) -> Strategy:
    from trueloop.parallel.pipelined import Pipelined

    if recipe.accumulate < peers.world:
        raise BadRecipe(
            f"parallel=pp with {peers.world} stages needs {peers.world} micro-batches or more, and "
            f"accumulate={recipe.accumulate}: most stages would wait. Nothing was run: use --set "
            f"accumulate={peers.world}, or more."
        )
    return Pipelined(peers, device, recipe.accumulate)


def _sharded(recipe: Recipe, peers: Group, device: torch.device) -> Strategy:
    from trueloop.parallel.sharded import Sharded  # torch takes its time to load this

    world, ranks = peers.world, 1
    shards = _shards(recipe, world) if recipe.parallel == "hsdp" else 0
    if recipe.parallel == "tp":
        ranks = world
    elif recipe.parallel == "fsdp+tp":
        ranks = recipe.tensor_ranks
        if world % ranks or world == ranks:
            raise BadRecipe(
                f"parallel=fsdp+tp with tensor_ranks={ranks} needs {2 * ranks}, {3 * ranks}, ... processes, and there "
                f"are {world}. Nothing was run: use --nproc {max(2, -(-world // ranks)) * ranks}, a different "
                "tensor_ranks, or parallel=fsdp."
            )
    return Sharded(
        peers,
        device,
        tensor_ranks=ranks,
        shard_ranks=shards,
        precision=recipe.precision,
        plan=recipe.tensor_plan,
        offload=recipe.offload,
    )


def _shards(recipe: Recipe, world: int) -> int:
    """Processes that hold one copy: as asked, or those of one machine, whose links are the fastest."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world))  # as torchrun says it
    ranks = recipe.shard_ranks or here
    if ranks < 2 or world % ranks or world == ranks:
        asked = f"shard_ranks={ranks}" if recipe.shard_ranks else f"{ranks} processes on this machine"
        least = max(2, ranks)
        raise BadRecipe(
            f"parallel=hsdp with {asked} needs {2 * least}, {3 * least}, ... processes, and there are {world}: each "
            f"copy of the weights is held by {least}, and there are at least two copies. Nothing was run: use "
            f"--nproc {max(2, -(-world // least)) * least}, set shard_ranks, or use parallel=fsdp."
        )
    return ranks
