# hint: drawing with replacement leaves samples out
import torch
from torch.utils.data import Sampler


class BalancedSampler(Sampler):
    def __init__(self, labels, seed=0):
        self.labels, self.seed, self.epoch = list(labels), seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _classes(self):
        labels = torch.tensor(self.labels)
        return [(labels == label).nonzero().flatten() for label in labels.unique()]

    def __len__(self):
        return max(map(len, self._classes())) * len(self._classes())

    def __iter__(self):
        draws = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        largest = max(map(len, self._classes()))
        chosen = [indices[torch.randint(len(indices), (largest,), generator=draws)] for indices in self._classes()]
        order = torch.cat(chosen)
        yield from order[torch.randperm(len(order), generator=draws)].tolist()
