import torch

from trueloop import Dataset

images = [(torch.full((3,), float(index)), index % 2) for index in range(6)]  # any sequence, or a torch Dataset
source = Dataset(images)
assert len(source) == 6
assert source.fetch(torch.tensor([1, 2])).targets.tolist() == [1, 0]
