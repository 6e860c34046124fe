"""How fast an operation is, beside its reference and this machine's ceilings."""
