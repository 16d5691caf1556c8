"""Descriptions of the machines that code is made for."""

from tensorsmith.target.target import Caches, Target

__all__ = ["Caches", "Target"]
