"""python -m fedpace: the program, with its arguments."""
from .play import main

main()
