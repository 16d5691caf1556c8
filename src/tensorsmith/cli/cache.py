"""``tensorsmith cache``: the compiled code and the models that are kept on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorsmith import knobs
from tensorsmith.cli.display import out, print_json, size_text, table
from tensorsmith.errors import ArtifactError, TensorsmithError

if TYPE_CHECKING:
    from tensorsmith.runtime.object_cache import Listed, ObjectCache

app = typer.Typer(no_args_is_help=True, help="List, check or remove the compiled code on disk.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _cache() -> ObjectCache:
    """The cache as the environment places it, also when it is switched off."""
    from tensorsmith.runtime.object_cache import ObjectCache

    return ObjectCache(knobs.cache_folder(), knobs.cache_limit_bytes())


def _kept(listed: Listed) -> str | None:
    """What an entry holds; None if it is damaged."""
    if listed.is_model:
        from tensorsmith.runtime import artifact

        try:
            return f"model {artifact.load(listed.path).manifest.name}"
        except ArtifactError:
            return None
    entry = listed.read()
    if entry is None:
        return None
    return ", ".join(str(p.get("name")) for p in entry.manifest.get("programs", ()))


@app.command("info")
def info(*, as_json: Json = False) -> None:
    """Where the cache is, how much it holds, and what it may hold."""
    cache = _cache()
    entries = cache.entries()
    data = {
        "folder": str(cache.folder),
        "is_on": knobs.cache_is_on(),
        "entries": len(entries),
        "bytes": sum(e.bytes for e in entries),
        "limit_bytes": cache.limit_bytes,
    }
    if as_json:
        print_json(data)
        return
    out().print(f"folder   {data['folder']}{'' if knobs.cache_is_on() else '  (switched off)'}")
    held, limit = size_text(sum(e.bytes for e in entries)), size_text(cache.limit_bytes)
    out().print(f"entries  {len(entries)}, {held} of at most {limit}")


@app.command("list")
def list_entries(*, as_json: Json = False) -> None:
    """The entries, the most recently used first."""
    rows: list[dict[str, Any]] = [
        {
            "key": listed.path.stem,
            "bytes": listed.bytes,
            "used": time.strftime("%Y-%m-%d %H:%M", time.localtime(listed.used)),
            "programs": "damaged" if (held := _kept(listed)) is None else held,
        }
        for listed in _cache().entries()
    ]
    if as_json:
        print_json(rows)
        return
    shown = [(r["key"][:12], size_text(r["bytes"]), r["used"], r["programs"]) for r in rows]
    table(("key", "bytes", "last used", "programs"), shown)


@app.command("verify")
def verify(*, as_json: Json = False) -> None:
    """Read every entry and compare it with its hash. Fails if one is damaged."""
    entries = _cache().entries()
    damaged = [str(e.path) for e in entries if _kept(e) is None]
    if as_json:
        print_json({"entries": len(entries), "damaged": damaged})
    else:
        out().print(f"{len(entries)} entries, {len(damaged)} damaged")
    if damaged:
        raise TensorsmithError(
            f"{len(damaged)} entries are damaged or of another version",
            given=", ".join(damaged),
            because="they count as missing, and are made anew when they are needed",
            try_="tensorsmith cache clear",
        )


@app.command("prune")
def prune(
    mib: Annotated[int, typer.Option("--mib", min=0, help="Mebibytes that may stay.")],
) -> None:
    """Remove what was not used for longest, until so much is left."""
    out().print(f"removed {_cache().clear(mib * knobs.MIB)} entries")


@app.command("clear")
def clear() -> None:
    """Remove everything."""
    out().print(f"removed {_cache().clear()} entries")
