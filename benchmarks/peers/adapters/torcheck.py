"""torcheck as its README says: the optimizer registered, every parameter must change, outputs are no probabilities,
nothing is NaN or inf.

It speaks by raising, which ends the training. The check that outputs are not all within (0, 1) is the README's remedy
for a softmax before the loss; it is given to classifiers only.
"""

import torcheck
from torch import nn


def watch(train, model, loss_function, optimizer, train_loader):
    classifies = isinstance(loss_function, nn.CrossEntropyLoss)
    try:
        torcheck.register(optimizer)
        torcheck.add_module(
            model,
            module_name="model",
            changing=True,
            output_range=(0, 1) if classifies else None,
            negate_range=classifies,
            check_nan=True,
            check_inf=True,
        )
        train()
    except RuntimeError as error:
        yield error
