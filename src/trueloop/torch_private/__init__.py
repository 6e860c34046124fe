"""Every private name of torch that trueloop uses, and nothing else.

Private names may move in any release. So they are collected here, by topic, and no other room may use one
(`tests/test_architecture.py`). Each entry says what it is for and since which supported release it exists; "2.11+"
means all of 2.11 to 2.15. Each entry has one test in `tests/torch_private/`, which fails first when a release moves the
name.

    autograd.py     nodes of the autograd graph: saved tensors, shapes of results
    compiler.py     torch.compile: compiled modules, its counters, how it treats our wrappers
    dataloader.py   the iterator of a DataLoader, its workers, the batch it is fetching
    dispatch.py     dispatch modes, fake tensors, operator schemas, pytrees
    dispatch_table.py  the dispatcher's table of an operator, the keys of a call
    distributed.py  key-value stores
    foreach.py      operations on lists of tensors, fused optimizer kernels
    inductor.py     torch's compiler backend by its inner entry points (slow to import: import it where it is used)
    modes.py        function modes that are active
    modules.py      base classes of layers, the dictionaries of a module, frames of a module call
    optimizers.py   hooks and the step frame of an optimizer
    profiler.py     profiler state, overloads in a profile, CUDA memory snapshots
    tensors.py      version counter, base of a view, identity of a storage
    torchscript.py  TorchScript's table of builtin functions

This room imports torch and nothing of trueloop. Importing a file here must not change the state of torch.
"""
