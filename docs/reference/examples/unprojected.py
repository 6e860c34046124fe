import torch

from trueloop import Unprojected

hidden, weight = torch.randn(2, 5, 8), torch.randn(100, 8)
output = Unprojected(hidden, weight)  # a language model returns this instead of all scores at once
assert output.shape == (2, 5, 100)
assert torch.equal(output.scores(), hidden @ weight.T)
