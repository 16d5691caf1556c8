"""How Hypothesis runs here."""

from hypothesis import settings

# No deadline: on a busy machine a slow case is not a wrong case.
settings.register_profile("tensorsmith", settings.default, deadline=None, print_blob=True)
settings.load_profile("tensorsmith")
