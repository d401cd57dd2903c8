"""Kernels of angelspec, imported as ``angelspec.kernels``: one operation a file, each beside a torch reference.

Every kernel's docstring states its formula; ``reference.py`` computes the same thing in plain torch, and the tests
compare the two. Importing this package needs neither Triton nor a GPU: a module that needs Triton says so itself.
"""

# No __version__ here, and nothing heavy: at the root of a checkout this folder is also importable as `kernels`, and
# transformers probes for a package of that name and takes it for the Hugging Face one if it states a version.
