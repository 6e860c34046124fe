"""torchtest2 as its README starts: `check_model` on one batch, before training."""

import torchtest2


def watch(train, model, loss_function, optimizer, train_loader):
    inputs, targets = next(iter(train_loader))
    report = torchtest2.check_model(model, inputs, targets, loss_fn=loss_function, optimizer=optimizer)
    print(report)
    yield from (*report.failures, *report.warnings)
    train()
