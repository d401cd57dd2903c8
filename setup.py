"""The list of packages; everything else is in pyproject.toml, whose `packages.find` cannot rename a folder it finds."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["angelspec", "angelspec.*"]),
        *(f"angelspec.{name}" for name in find_packages(include=["kernels", "kernels.*"])),
    ]
)
