"""The researcher before a week of GPUs. `make tutorials` runs this and writes researcher.md."""

from tests.site.tutorial import Tutorial

tutorial = Tutorial("The researcher before a week of GPUs")

tutorial.say("""
A week on eight GPUs is booked. Three problems would be expensive to discover in the middle of it: a killed run does
not resume, the model cannot learn even one batch, or the memory does not suffice. You can test all three today, on a
laptop.
""")

tutorial.say("""
## A short run first

Here the bundled recipe `digits` takes the place of your own `recipe.py`. A short training creates a run folder, which
will hold all evidence.
""")

tutorial.run("trueloop train digits --set epochs=4 --name pilot | tail -5", shows=["runs/pilot"])

tutorial.say("""
## Test simple claims

`trueloop probe RUN` tests all claims. Here are the four whose failure would cost the week. The tests are real: the run
is killed and resumed, and the model overfits one batch.
""")

tutorial.run(
    "trueloop probe pilot overfit-one-batch gradients-reach-every-layer batch-independence resume-is-exact",
    shows=["resume-is-exact"],
)

tutorial.say("""
## Does it fit, and how is it split?

`trueloop plan` computes memory and traffic for GPUs that this machine does not have. You give the numbers of the GPUs;
assumptions are marked.
""")

tutorial.run("trueloop plan digits --set batch=4096 --gpus 8 --memory 80GB --bandwidth 600GB/s", shows=["ddp"])

tutorial.say("""
## Is there speed for free?

`trueloop tune` measures different ways to compute the same training. It keeps a faster one only if the result is the
same. Give it more minutes on the booked machine.
""")

tutorial.run("trueloop tune digits --minutes 1 --seeds 2 --write tuned.py", shows=["reference"])

tutorial.say("""
## Ready?

`trueloop ready` uses recorded evidence only. Anything that was not tested is listed as missing, with the command that
tests it.
""")

tutorial.run("trueloop ready pilot", shows=["runs/pilot: "])

tutorial.say("""
Work through the lines from the top. When you accept all remaining risks, start the long run with the pilot as the
baseline: `trueloop train recipe.py --baseline runs/pilot` stops a run that is worse than the pilot.
""")
