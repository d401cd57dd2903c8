"""``python -m angelspec`` is the ``angelspec`` program, for a checkout where nothing is installed."""

from angelspec.cli import main

main()
