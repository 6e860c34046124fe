"""Chooses between full and sharded checkpoints."""

from trueloop.checkpoint.layout import FullLayout, Layout
from trueloop.checkpoint.store import Folder, Store
from trueloop.parallel.strategy import Strategy

__all__ = ["layout_for"]


def layout_for(strategy: Strategy, store: Store) -> Layout:
    """Sharded if processes hold shards and can all write to one folder. All processes must call this together."""
    if not strategy.in_parts or strategy.stages > 1 or not isinstance(store, Folder):
        return FullLayout(strategy)
    from trueloop.checkpoint.sharded_contents import ShardedLayout  # slow import

    return ShardedLayout(strategy.peers)
