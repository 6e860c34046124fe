"""WHERE TORCH IS TOUCHED: one file per part of torch that is hooked or patched.

A tap publishes *topics*, with live objects, to its subscribers (the observers); it computes nothing and keeps no tensor
alive. What no observer listens to is not installed. Everything a tap changes in torch it puts back when it is removed.
"""
