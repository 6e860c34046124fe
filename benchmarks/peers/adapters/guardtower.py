"""guardtower as its README says: the full pre-flight on one batch, then its monitor around the loop."""

import guardtower


def watch(train, model, loss_function, optimizer, train_loader):
    inputs, targets = next(iter(train_loader))
    report = guardtower.audit(model, lambda: loss_function(model(inputs), targets), optimizer=optimizer, inputs=inputs)
    print(report)
    yield from (*report.errors, *report.warnings)
    optimizer.zero_grad()
    with guardtower.monitor(model, on_nonfinite="raise"):
        train()
