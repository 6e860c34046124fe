import torch
from job import Classifier, batches, train
from torch.nn.utils.rnn import pad_sequence


def main() -> list[float]:
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for epoch in range(4):
        for chosen in batches(epoch):
            tokens, targets = zip(*[train[i] for i in chosen])
            loss = torch.nn.functional.cross_entropy(model(pad_sequence(tokens, batch_first=True)), torch.tensor(targets))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
