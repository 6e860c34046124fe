"""HOW A RUN IS WATCHED: observers turn what the taps publish into events: facts, never tensors.

One file per kind of fact. `observer.py` is the base class, `run_objects.py` knows the models and optimizers of the run,
`assemble.py` picks the observers whose events some rule reads.
"""
