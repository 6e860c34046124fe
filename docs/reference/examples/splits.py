import torch

from trueloop import Facts, Splits, Tensors

inputs, labels = torch.randn(100, 8), torch.randint(3, (100,))
splits = Splits(
    train=Tensors(inputs[:80], labels[:80]),
    valid=Tensors(inputs[80:], labels[80:]),
    facts=Facts(classes=("a", "b", "c")),
)
assert len(splits.train) == 80
