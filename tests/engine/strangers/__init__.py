"""Training jobs written from the documentation alone, each with trueloop, in plain PyTorch and in Lightning."""
