"""A RUN OF OURS, WHOLE: the folder, the judges and the trackers around the engine's loop."""
