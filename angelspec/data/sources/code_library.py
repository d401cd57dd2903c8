"""Functions and methods of Python's standard library with their signatures and docstrings, by inspection.

What is offered must not depend on the interpreter, or the same seed would make other prompts on another machine. So the
modules are a fixed list of pure-Python ones, only members of `__all__` count, and members whose signature or docstring
differs between Python 3.11, 3.12 and 3.13 are left out by name (`CHANGING`). The manifest records the version and a
digest of all texts, so that a difference that a later bug-fix release brings is seen.

The texts are those of the Python Software Foundation (PSF-2.0).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

MODULES = (
    "ast base64 calendar cmd collections configparser contextlib copy csv dataclasses difflib email.utils enum filecmp "
    "fileinput fnmatch fractions functools getopt glob graphlib gzip heapq hmac html html.parser "
    "http.cookies inspect ipaddress "
    "json json.decoder json.encoder linecache logging mailbox mimetypes optparse pkgutil posixpath "
    "pprint queue random re "
    "reprlib sched secrets shlex shutil statistics string symtable tarfile tempfile textwrap threading timeit tokenize "
    "trace traceback types typing unittest urllib.parse urllib.robotparser uuid warnings weakref xml.etree.ElementTree "
    "xml.sax.saxutils zipfile"
).split()

# Whole modules kept for evaluation. A module and what it re-exports stay on one side.
EVAL_MODULES = frozenset({
    "calendar", "fnmatch", "glob", "heapq", "html", "html.parser", "random", "shlex", "statistics", "string", "textwrap", "uuid",
    "queue", "configparser", "mimetypes",
})  # fmt: skip

SHORTEST, LONGEST = 60, 900  # characters of a docstring that says something and still fits a prompt

# The last one is stable in Python, but torch replaces it when it is imported.
CHANGING = frozenset(
    """
base64.a85encode base64.z85decode base64.z85encode calendar.monthrange collections.Counter.elements copy.replace
dataclasses.make_dataclass email.utils.formatdate email.utils.getaddresses email.utils.parseaddr
fractions.Fraction.as_integer_ratio functools.lru_cache functools.update_wrapper functools.wraps glob.translate
inspect.Signature.format inspect.getasyncgenlocals inspect.getasyncgenstate inspect.isclass
inspect.iscoroutinefunction inspect.ismethod inspect.ismethoddescriptor inspect.ismodule inspect.markcoroutinefunction
logging.Handler.handle logging.Logger.critical logging.Logger.debug logging.Logger.error logging.Logger.info
logging.Logger.log logging.Logger.warning logging.getHandlerByName mailbox.Maildir.add_flag mailbox.Maildir.get_flags
mailbox.Maildir.remove_flag mailbox.Maildir.set_flags mimetypes.MimeTypes.guess_file_type mimetypes.guess_file_type
posixpath.isjunction posixpath.lexists posixpath.splitroot queue.Queue.get queue.Queue.put queue.Queue.shutdown
queue.Queue.task_done random.Random.betavariate random.Random.binomialvariate random.Random.expovariate
random.Random.gammavariate random.Random.triangular random.Random.uniform re.template shutil.chown shutil.rmtree
statistics.correlation statistics.geometric_mean statistics.kde_random symtable.SymbolTable.get_type
tarfile.TarFile.addfile tempfile.NamedTemporaryFile threading.Event.wait threading.setprofile_all_threads
threading.settrace_all_threads tokenize.open trace.CoverageResults.write_results traceback.StackSummary.format
traceback.StackSummary.format_frame_summary traceback.TracebackException.format
traceback.TracebackException.format_exception_only traceback.print_exc traceback.print_last types.get_original_bases
typing.NamedTuple typing.get_protocol_members typing.is_protocol typing.override typing.reveal_type zipfile.Path.open
zipfile.ZipFile.extract zipfile.ZipFile.extractall zipfile.ZipFile.read zipfile.ZipFile.testzip
inspect.getfile
""".split()
)


@dataclass(frozen=True)
class Member:
    """One function or method: `textwrap.shorten`, its signature as text, its docstring."""

    module: str
    qualified: str  # inside the module: "shorten" or "TextWrapper.wrap"
    signature: str
    doc: str

    @property
    def name(self) -> str:
        """The bare name."""
        return self.qualified.rpartition(".")[2]

    @property
    def path(self) -> str:
        """The full dotted name."""
        return f"{self.module}.{self.qualified}"

    @property
    def is_method(self) -> bool:
        return "." in self.qualified


@lru_cache(maxsize=1)
def members() -> tuple[Member, ...]:
    """All offered members, in the order of `MODULES`, then by name; each function once, under its first module."""
    found: list[Member] = []
    seen: set[str] = set()
    for module_name in MODULES:
        for member in _members_of(module_name, importlib.import_module(module_name)):
            if member.path not in CHANGING and member.doc not in seen:
                seen.add(member.doc)
                found.append(member)
    return tuple(found)


def library_digest() -> str:
    """SHA-256 of all offered names, signatures and docstrings."""
    digest = hashlib.sha256()
    for member in members():
        digest.update(f"{member.path}\0{member.signature}\0{member.doc}\0".encode())
    return digest.hexdigest()


def _members_of(module_name: str, module: ModuleType) -> Iterator[Member]:
    for name in sorted(module.__all__ if hasattr(module, "__all__") else ()):
        thing = getattr(module, name, None)
        if inspect.isfunction(thing):
            candidates = {name: thing}
        elif inspect.isclass(thing) and thing.__module__ == module_name:
            candidates = {f"{name}.{key}": value for key, value in sorted(vars(thing).items()) if key[0] != "_"}
        else:
            continue
        for qualified, function in candidates.items():
            if inspect.isfunction(function) and function.__module__ == module_name:
                member = _describe(module_name, qualified, function)
                if member is not None:
                    yield member


def _describe(module_name: str, qualified: str, function: object) -> Member | None:
    doc = inspect.cleandoc(function.__doc__ or "")
    if not SHORTEST <= len(doc) <= LONGEST or '"""' in doc:
        return None
    signature = str(inspect.signature(function))
    if " at 0x" in signature or "<" in signature:  # a default that prints as an address or an object
        return None
    return Member(module_name, qualified, signature, doc)
