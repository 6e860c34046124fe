import numpy as np

from trueloop import Tensors

source = Tensors(np.zeros((5, 2), dtype=np.float32), np.arange(5))  # arrays or tensors, one row per sample
assert len(source) == 5
