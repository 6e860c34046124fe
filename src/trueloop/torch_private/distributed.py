"""Key-value stores. Import this file where it is used: a torch built without torch.distributed lacks them."""

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

__all__ = ["PrefixStore", "Store", "TCPStore"]

# torch.distributed has PrefixStore, Store and TCPStore too, where a type checker cannot see them. 2.11+
