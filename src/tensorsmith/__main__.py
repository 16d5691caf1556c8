"""``python -m tensorsmith``: the command."""

from tensorsmith.cli.main import main

if __name__ == "__main__":
    main()
