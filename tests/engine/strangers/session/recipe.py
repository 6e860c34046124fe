import torch
from job import inputs, labels, loader, loss_of, net

import trueloop

torch.manual_seed(0)
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
with trueloop.session("session", steps=40, save_every=5, log_every=1, model=model, optimizer=optimizer, scheduler=scheduler, loader=loader()) as run:
    for step, (rows, targets) in run.batches():
        model.train()
        loss = loss_of(model, rows, targets, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        run.log(loss=loss)
        if run.step % 5 == 0:
            model.eval()
            with torch.no_grad():
                output = model(inputs[240:])
            accuracy = (output.argmax(1) == labels[240:]).float().mean()
            run.evaluated(accuracy=accuracy, loss=torch.nn.functional.cross_entropy(output, labels[240:]))
