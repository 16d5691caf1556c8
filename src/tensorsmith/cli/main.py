"""The `tensorsmith` command: its subcommands, and how errors end it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import tensorsmith
from tensorsmith.cli import cache
from tensorsmith.cli.bench import bench
from tensorsmith.cli.compare import compare
from tensorsmith.cli.compile import compile_model
from tensorsmith.cli.display import notes
from tensorsmith.cli.doctor import doctor
from tensorsmith.cli.explain import explain
from tensorsmith.cli.inspect import inspect
from tensorsmith.cli.profile import profile
from tensorsmith.cli.run import run
from tensorsmith.errors import TensorsmithError

app = typer.Typer(
    name="tensorsmith",
    help="Compile models to native code that is fast, run them, and see what they do.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("compile")(compile_model)
app.command()(run)
app.command()(bench)
app.command()(profile)
app.command()(explain)
app.command()(compare)
app.command()(inspect)
app.command()(doctor)
app.add_typer(cache.app, name="cache")


def _version(*, wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"tensorsmith {tensorsmith.__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=lambda wanted: _version(wanted=wanted), is_eager=True),
    ] = False,
) -> None:
    """Compile models to native code that is fast, run them, and see what they do."""


def main() -> None:
    """Run the command. Errors of ours are printed without a traceback, and end it with status 1."""
    try:
        app()
    except TensorsmithError as error:
        notes().print(f"error: {error}", style="red", markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        notes().print("interrupted", markup=False)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        sys.exit(141)
