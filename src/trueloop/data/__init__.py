"""WHAT IS LEARNED FROM: one file per kind of source. Each gives batches by sample number; the order is the engine's."""
