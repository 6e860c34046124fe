"""The researcher before a week of GPUs. `make tutorials` runs this and writes researcher.md."""

from tests.site.tutorial import Tutorial

tutorial = Tutorial("The researcher before a week of GPUs")

tutorial.say("""
A week on eight GPUs is booked. What would be embarrassing to find out on Thursday? That a killed run does not resume,
that the model cannot even learn one batch, that the memory does not suffice. All of it can be tried today, on a laptop.
""")

tutorial.say("""
## A short run first

The bundled recipe `digits` stands for your own `recipe.py`. One short training gives a run folder, to which all
evidence is attached.
""")

tutorial.run("trueloop train digits --set epochs=4 --name pilot | tail -5", shows=["runs/pilot"])

tutorial.say("""
## Prove simple claims

`trueloop probe RUN` tests all claims; here are four whose failure costs a week. Each is tried for real:
the run is killed and resumed, a batch is learned by heart.
""")

tutorial.run(
    "trueloop probe pilot overfit-one-batch gradients-reach-every-layer batch-independence resume-is-exact",
    shows=["resume-is-exact"],
)

tutorial.say("""
## Does it fit, and how is it split?

`trueloop plan` computes memory and traffic for GPUs that are not here. The GPUs' numbers are yours to give; what is
assumed is marked.
""")

tutorial.run("trueloop plan digits --set batch=4096 --gpus 8 --memory 80GB --bandwidth 600GB/s", shows=["ddp"])

tutorial.say("""
## Is there speed for free?

`trueloop tune` measures other ways to compute the same training and keeps one only if it gives the same result. On the
booked machine give it more minutes.
""")

tutorial.run("trueloop tune digits --minutes 1 --seeds 2 --write tuned.py", shows=["reference"])

tutorial.say("""
## Ready?

`trueloop ready` reads what was recorded, and only that. What nobody has tested is listed as missing, with the command
that answers it.
""")

tutorial.run("trueloop ready pilot", shows=["runs/pilot: "])

tutorial.say("""
Work through the lines from the top. When only risks are left that you accept, start the week, with the pilot as the
baseline: `trueloop train recipe.py --baseline runs/pilot` stops a run that falls behind it.
""")
