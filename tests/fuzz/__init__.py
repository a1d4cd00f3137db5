"""Hostile and broken things of every kind, tried at random; `python -m fuzz` (or `make fuzz`) goes on for long.

Each kind is a module with a function `trial(rng, folder)`: it makes something with the random numbers, hands it to the
package, and returns "accepted" or the sentence that refused it. Anything else is a failure: an exception that is no
sentence of ours, an endless loop, memory without bound, a wrong result.
"""
