"""The student whose loss does not fall. `make tutorials` runs this and writes student.md."""

from tests.site.tutorial import Tutorial

tutorial = Tutorial("The student whose loss does not fall")

tutorial.say("""
A first network, a loop from a lecture, and nothing happens: no error, and no learning.
""")

tutorial.file(
    "train.py",
    """
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=50, shuffle=True)

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(5):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        total += loss.item() * len(x)
    model.eval()
    with torch.no_grad():
        accuracy = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean()
    print(f"epoch {epoch + 1}  loss {total / 1400:.4f}  val_acc {accuracy:.3f}")
""",
)

tutorial.run("python train.py", shows=["epoch 5  loss 2.3"])

tutorial.say("""
A loss of 2.30 is `log(10)`: the network guesses among ten digits. Should the learning rate be higher? More layers?
Before changing anything, let trueloop watch the same run. The script stays as it is.
""")

tutorial.run("trueloop check train.py", code=1, shows=["GRD102", "it did not fall"])

tutorial.say("""
One finding, and it names two lines: `zero_grad()` stands between `backward()` and `step()`, so each step gets no
gradient at all. The exit code is 1. The page of the rule says why this hurts, and when it is fine:
""")

tutorial.run("trueloop explain GRD102", shows=["Why it hurts"])

tutorial.say("""
Is this really the cause? `trueloop try` runs the script without and with a change, in copies of the folder, and
compares. Here the two calls change places; `train.py` itself is not touched.
""")

tutorial.file(
    "fix.diff",
    """
--- train.py
+++ train.py
@@ -19,4 +19,4 @@
         loss = nn.functional.cross_entropy(model(x), y)
-        loss.backward()
         optimizer.zero_grad()
+        loss.backward()
         optimizer.step()
""",
)

tutorial.run("trueloop try --patch fix.diff train.py", shows=["GRD102"])

tutorial.say("""
It is. Write the fix into the script, and check again: the loss falls, and there is nothing left to report.
""")

tutorial.run("patch -p0 < fix.diff")
tutorial.run("trueloop check train.py", shows=["epoch 5"])

tutorial.say("""
Both checks were kept as runs, with their curves:
""")

tutorial.run("trueloop runs", shows=["train-2"])

tutorial.say("""
What to take along: a loss that stays at chance is rarely a question of the learning rate. Ask first whether the
gradients reach the weights.
""")
