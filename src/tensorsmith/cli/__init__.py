"""The `tensorsmith` command."""
