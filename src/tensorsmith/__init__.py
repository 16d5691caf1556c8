"""Tensorsmith: a tensor-program compiler."""
