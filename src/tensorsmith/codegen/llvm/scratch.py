"""Memory that each iteration of a loop uses anew: taken once, before the loop."""

from __future__ import annotations

from tensorsmith.ir import Alloc, Bind, Block, For, Load, Seq, Stmt, Var, free_vars, postorder
from tensorsmith.ir.rewrite import statements


def allocated_before(loop: For) -> list[Alloc]:
    """The allocations that the body of a loop starts with or has between its statements, and whose
    sizes do not depend on anything that the loop defines or loads."""
    body = loop.body
    if not isinstance(body, Seq):
        return []
    own = {loop.var, *_defined(body)}
    return [
        x
        for x in body.stmts
        if isinstance(x, Alloc)
        and own.isdisjoint(free_vars(*x.buffer.shape))
        and not any(isinstance(e, Load) for e in postorder(*x.buffer.shape))
    ]


def _defined(body: Stmt) -> set[Var]:
    """The variables that statements define."""
    found: set[Var] = set()
    for x in statements(body):
        if isinstance(x, (For, Bind)):
            found.add(x.var)
        elif isinstance(x, Block):
            found.update(it.var for it in x.iters)
    return found
