"""WHAT IS LEARNED FROM: one file per kind of source. Each gives batches by sample number, so that order and position
are the engine's."""
