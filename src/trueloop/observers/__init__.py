"""HOW A RUN IS WATCHED: a observer hears moments from the taps and emits events: facts, never tensors.

One file per kind of fact. `probe.py` says what a observer is, `roster.py` keeps who is who, `assemble.py` picks the observers
whose events some rule reads. Apart from those three, no observer imports another.
"""
