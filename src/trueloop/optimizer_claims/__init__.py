"""Claims about an optimizer of the user's own: `trueloop probe opt.py:MySGD --against torch.optim.SGD`."""
