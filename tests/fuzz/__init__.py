"""Fuzzing: random hostile and damaged inputs of several kinds; `python -m fuzz` (or `make fuzz`) runs for minutes.

Each kind is a module with a function `trial(rng, folder)`. It generates an input, gives it to the package, and returns
"accepted" or the message of the error. Anything else is a failure: an exception without a clear message, an endless
loop, unbounded memory, a wrong result.
"""
