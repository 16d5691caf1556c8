"""Tensorsmith: a tensor-program compiler."""

from tensorsmith._version import __version__

__all__ = ["__version__"]
