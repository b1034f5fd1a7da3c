"""``python -m pellucid`` is the command ``pellucid``, for a Python whose scripts are not on the path."""

from pellucid.cli.main import main

main()
