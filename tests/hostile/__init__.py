"""Files that a stranger may send, made by code: no verb executes, hangs, fills the memory or fails with a traceback."""
