"""OUR LOOP: `train.py` is the loop, written out; the other files are the words it is written in, each usable alone."""
