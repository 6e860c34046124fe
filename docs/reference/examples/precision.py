import torch

from trueloop import Precision

precision = Precision("bf16", torch.device("cpu"))
model = torch.nn.Linear(4, 2)
with precision.autocast():
    assert model(torch.randn(3, 4)).dtype == torch.bfloat16
