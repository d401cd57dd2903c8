"""The commands of the ``angelspec`` program, one module each, with a function ``command``."""
