import trueloop

# In a notebook: %load_ext trueloop, then %%check as the first line of a cell.
assert callable(trueloop.load_ipython_extension)
