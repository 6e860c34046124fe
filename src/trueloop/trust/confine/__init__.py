"""Opening a stranger's file in a process that can do nothing but answer.

client       the process that asks: starts a worker, hands over an open file, reads bytes back
session      a file that stays open in such a process, and answers questions
worker       the process that opens files: confines itself, then forks one child per file
landlock, seccomp, namespaces, limits    the four fences, each with what it does where the kernel lacks it
"""
