"""`python -m elmo_hf.cli`: the command line without the command, as torchrun wants it."""

from elmo_hf.cli import main

main()
