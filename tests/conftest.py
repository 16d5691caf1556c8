"""How tests run: Hypothesis without a deadline, with the same cases each time in fast tests (the
slow ones look for new ones), and a cache of compiled code that does not last."""

import atexit
import os
import tempfile

from hypothesis import settings

# No deadline: on a busy machine a slow case is not a wrong case.
settings.register_profile(
    "tensorsmith", settings.default, deadline=None, print_blob=True, derandomize=True
)
settings.load_profile("tensorsmith")

# Set before anything is compiled, the doctests of src included.
_code = tempfile.TemporaryDirectory(prefix="tensorsmith-tests-")
atexit.register(_code.cleanup)
os.environ["TENSORSMITH_CACHE_DIR"] = _code.name
