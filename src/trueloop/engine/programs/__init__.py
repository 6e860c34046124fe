"""How a step is executed: eager, as CUDA graphs, or as one compiled function."""
