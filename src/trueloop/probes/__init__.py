"""HOW A RUN IS WATCHED: a probe hears moments from the taps and emits events: facts, never tensors.

One file per kind of fact. `probe.py` says what a probe is, `roster.py` keeps who is who, `assemble.py` picks the probes whose events some
rule reads. Apart from those three, no probe imports another.
"""
