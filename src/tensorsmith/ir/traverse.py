"""Walking and rebuilding expressions. Iterative: no depth of nesting overflows Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tensorsmith.errors import DTypeError
from tensorsmith.ir.expr import Expr, Var


def postorder(*roots: Expr) -> Iterator[Expr]:
    """Every distinct node under `roots`, operands before their users."""
    seen: set[Expr] = set()
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in seen:
            stack.pop()
            continue
        pending = [a for a in e.args if a not in seen]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        seen.add(e)
        yield e


_variables = Expr.__dict__["variables"]
"""The slot of a node that keeps its variables, once they were asked for."""


def free_vars(*roots: Expr) -> tuple[Var, ...]:
    """The variables under `roots`, in order of their first use."""
    if len(roots) != 1:
        return _variables_under(roots)
    root = roots[0]
    try:
        return _variables.__get__(root)  # type: ignore[no-any-return]  # a slot has no type
    except AttributeError:
        if type(root) is Var:  # which would refer to itself
            return (root,)
        found = _variables_under(root.args)
        _variables.__set__(root, found)
        return found


def _variables_under(roots: tuple[Expr, ...]) -> tuple[Var, ...]:
    seen: set[Expr] = set()
    found: list[Var] = []
    stack = list(reversed(roots))
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if type(e) is Var:
            found.append(e)
        else:
            stack.extend(reversed(e.args))
    return tuple(found)


def transform(
    root: Expr, change: Callable[[Expr], Expr | None], cache: dict[Expr, Expr] | None = None
) -> Expr:
    """`root` rebuilt from its leaves up, each node replaced by ``change(node)`` unless None.

    `change` sees a node after its operands were replaced; its result is not visited again. `cache`
    keeps results between calls with one `change`.
    """
    done: dict[Expr, Expr] = {} if cache is None else cache
    stack = [root]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        args = e.args
        pending = [a for a in args if a not in done]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        new = e
        if args:
            new_args = tuple([done[a] for a in args])
            if new_args != args:
                new = e.with_args(new_args)
        changed = change(new)
        done[e] = new if changed is None else changed
    return done[root]


def substitute(
    root: Expr, values: Mapping[Expr, Expr], cache: dict[Expr, Expr] | None = None
) -> Expr:
    """`root` with every node that is a key of `values` replaced; replacements are not searched.

    Keys may be any nodes, most often variables. `cache` keeps results between calls with the same
    `values`.
    """
    done: dict[Expr, Expr] = {} if cache is None else cache
    stack = [root]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        new = values.get(e)
        if new is not None:
            if new.dtype is not e.dtype:
                raise DTypeError(
                    f"{e!r} is {e.dtype}, and cannot be replaced by {new!r}: {new.dtype}"
                )
            done[e] = new
            stack.pop()
            continue
        args = e.args
        if not args:
            done[e] = e
            stack.pop()
            continue
        pending = [a for a in args if a not in done]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        new_args = tuple([done[a] for a in args])
        done[e] = e if new_args == args else e.with_args(new_args)
    return done[root]
