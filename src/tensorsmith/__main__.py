"""``python -m tensorsmith``: the command."""

from tensorsmith.cli.main import main

main()
