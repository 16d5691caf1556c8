"""Readers of models, each of which makes a module."""
