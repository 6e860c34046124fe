"""The engineer at three in the morning. `make tutorials` runs this and writes on_call.md."""

from tests.site.tutorial import Tutorial

tutorial = Tutorial("The engineer at three in the morning")

tutorial.say("""
Every night a job trains a model of tomorrow's demand from a table that another team delivers. Tonight there is an
alert: the model is much worse than yesterday's. Nobody changed the code, nothing crashed, and the log looks normal.
""")

tutorial.say("""
This script plays the other team. With `--today` some of its sensors report Fahrenheit.
""")

tutorial.file(
    "deliver.py",
    """
import sys

import numpy as np

today = "--today" in sys.argv
random = np.random.default_rng(3 if today else 2)
celsius = random.uniform(-5, 30, 3000)
weekday = random.integers(0, 7, 3000)
price = random.uniform(1, 4, 3000)
demand = 40 + 2.5 * celsius - 12 * price + 8 * (weekday >= 5) + random.normal(0, 2, 3000)
wrong = random.random(3000) < 0.3
temperature = np.where(wrong, celsius * 1.8 + 32, celsius) if today else celsius
rows = np.column_stack([temperature, weekday, price, demand])
np.savetxt("demand.csv", rows, delimiter=",", header="temperature,weekday,price,demand", comments="", fmt="%.2f")
""",
)

tutorial.say("""
## The two nights

The job ran the same command yesterday and today.
""")

tutorial.run(
    "python deliver.py && trueloop train tabular demand.csv --target demand --set epochs=10 --name yesterday | tail -4",
    shows=["test       mae 2."],
)
tutorial.run(
    "python deliver.py --today && "
    "trueloop train tabular demand.csv --target demand --set epochs=10 --name today | tail -4",
    shows=["test       mae"],
)

tutorial.say("""
## What differs

First find out what changed: code, settings, machine or data?
""")

tutorial.run("trueloop compare yesterday today", shows=["data: train", "training loss differs"])

tutorial.say("""
Machine and settings are the same. The data differ: the number of rows is the same, but the values are different (the
digest is computed from samples that both runs read). The training loss differs from step 1 on, so nothing went wrong
late in the run.
""")

tutorial.say("""
`trueloop ready` also compares the run with the last good one, and lists what has not been tested:
""")

tutorial.run("trueloop ready today --baseline yesterday", shows=["the training data differ from those of yesterday"])

tutorial.say("""
## Which column

The table is the likely cause. This script can create yesterday's delivery again; yours would be in a backup.
""")

tutorial.file(
    "columns.py",
    """
import sys

import numpy as np

for name in sys.argv[1:]:
    table = np.genfromtxt(name, delimiter=",", names=True)
    for column in table.dtype.names:
        values = table[column]
        print(f"{name:14} {column:12} {values.min():7.1f} {np.median(values):7.1f} {values.max():7.1f}")
""",
)

tutorial.run(
    "mv demand.csv today.csv && python deliver.py && mv demand.csv yesterday.csv && "
    "python columns.py yesterday.csv today.csv",
    shows=["temperature"],
)

tutorial.say("""
A temperature of 86 °C is impossible. Call the other team in the morning; tonight, yesterday's model stays in use.

## Stop a bad run automatically

With `--baseline`, a run stops itself if it is worse than the last good run by more than the noise. The exit code is 5,
so the nightly job fails before a bad model is delivered.
""")

tutorial.run(
    "cp today.csv demand.csv && trueloop train tabular demand.csv --target demand --set epochs=10 --name guarded "
    "--baseline yesterday > log.txt 2>&1; echo exit code $?; tail -5 log.txt",
    shows=["exit code 5", "worse than the baseline"],
)
