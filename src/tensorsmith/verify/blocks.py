"""Blocks: the bindings of iterators, and the regions that are written out."""

from __future__ import annotations

from tensorsmith.arith import Analyzer, conjuncts
from tensorsmith.arith.accesses import Access
from tensorsmith.arith.iter_map import detect_iter_map
from tensorsmith.arith.regions import clip_region, cover, footprint
from tensorsmith.errors import ArithError
from tensorsmith.ir.buffer import Region
from tensorsmith.ir.expr import And, Eq, Expr, Var, free_vars
from tensorsmith.ir.stmt import TRUE, Block, Invoke, Iter, IterKind
from tensorsmith.verify.context import Context, Fact, Range, is_index, stop_of
from tensorsmith.verify.errors import BindingError, RegionError

Ranges = dict[Var, tuple[Expr, Expr]]


def check_bindings(context: Context, block: Block) -> None:
    """The loops take each point of the spatial and reduce iterators once, and bindings stay inside.

    Called outside of the block, where the types of its iterators are known to be right.
    """
    ordered = [it for it in block.iters if it.kind is not IterKind.OPAQUE]
    opaque = [it for it in block.iters if it.kind is IterKind.OPAQUE]
    ranges, predicate = _domain(context, block, ordered, opaque)
    if not _is_plain(context, ordered, ranges, predicate):
        wrong = _wrong_with_iterators_around(context, ordered, ranges, predicate)
        if wrong is not None and not _is_fused_with_opaque(context, block):
            _report_map(context, block, wrong)
    with context.scope():
        context.assume(block.predicate)
        for it in opaque:
            _check_inside(context, block, it)


def _domain(
    context: Context, block: Block, ordered: list[Iter], opaque: list[Iter]
) -> tuple[Ranges, list[Expr]]:
    """The loops that `ordered` iterators answer for, and the conditions that cut their box."""
    ranges = _ranges_for(context, ordered, opaque)
    conditions = [*conjuncts(context.resolve(block.predicate)), *context.conditions]
    predicate = _conditions_on(context, ranges, conditions)
    return ranges, predicate


def _ranges_for(context: Context, ordered: list[Iter], opaque: list[Iter]) -> Ranges:
    """The loops that `ordered` iterators answer for: all but those that only opaque ones use."""
    ours = set(free_vars(*(context.resolve(it.binding) for it in ordered)))
    theirs = set(free_vars(*(context.resolve(it.binding) for it in opaque)))
    return {
        loop.var: (context.resolve(loop.start), context.resolve(loop.extent))
        for loop in context.loops
        if loop.var in ours or loop.var not in theirs
    }


def _conditions_on(context: Context, ranges: Ranges, conditions: list[Expr]) -> list[Expr]:
    """The conditions that cut the box of the loops. One that fixes a loop variable, such as
    ``k == 0``, takes it out of `ranges`."""
    kept: list[Expr] = []
    for condition in conditions:
        fixed = _fixed_variable(context, condition, ranges)
        if fixed is None:
            kept.append(condition)
        else:
            del ranges[fixed]
    return [c for c in kept if any(v in ranges for v in free_vars(c))]


def _fixed_variable(context: Context, condition: Expr, ranges: Ranges) -> Var | None:
    """The loop variable to which the condition gives one value of its range; None if none."""
    if isinstance(condition, Eq):
        for var, value in (condition.args, condition.args[::-1]):
            if isinstance(var, Var) and var in ranges:
                if any(v in ranges for v in free_vars(value)):
                    return None
                start, extent = ranges[var]
                taken = And(start <= value, value < start + extent)
                return var if _analyzer_without(context, ranges).prove(taken) is True else None
    return None


def _is_plain(context: Context, ordered: list[Iter], ranges: Ranges, predicate: list[Expr]) -> bool:
    """Whether each iterator simply is a loop of its own, as in most programs."""
    used: set[Expr] = set()
    for it in ordered:
        binding = context.resolve(it.binding)
        if not isinstance(binding, Var) or binding not in ranges or binding in used:
            return False
        used.add(binding)
        loop = ranges[binding]
        same = ((loop[0], it.start), (loop[1], it.extent))
        if not all(a is b or context.analyzer.equal(a, context.resolve(b)) for a, b in same):
            return False
    return not predicate and len(used) == len(ranges)


def _wrong_with_iterators_around(
    context: Context, ordered: list[Iter], ranges: Ranges, predicate: list[Expr]
) -> ArithError | None:
    """As `_wrong_with_map`; in a second try the map is also from iterators of blocks around."""
    wrong = _wrong_with_map(context, ordered, ranges, predicate)
    outer = {
        v: context.iterator_ranges[v]
        for v in free_vars(*(context.resolve(it.binding) for it in ordered))
        if v in context.iterator_ranges and v not in ranges
    }
    if wrong is None or not outer:
        return wrong
    inner = _wrong_with_map(context, ordered, {**outer, **ranges}, predicate)
    return None if inner is None else wrong


def _is_fused_with_opaque(context: Context, block: Block) -> bool:
    """Whether loops take each point once for each value of the opaque iterators bound to them, as
    when a loop that repeats the block is fused with others: all values together fill a box."""
    ordered = [it for it in block.iters if it.kind is not IterKind.OPAQUE]
    opaque = [it for it in block.iters if it.kind is IterKind.OPAQUE]
    ours = set(free_vars(*(context.resolve(it.binding) for it in ordered)))
    shared = [it for it in opaque if ours.intersection(free_vars(context.resolve(it.binding)))]
    if not shared:
        return False
    others = [it for it in opaque if it not in shared]
    ranges, predicate = _domain(context, block, [*ordered, *shared], others)
    return _wrong_with_map(context, ordered, ranges, predicate, shared) is None


def _report_map(context: Context, block: Block, wrong: ArithError) -> None:
    context.report(
        BindingError,
        f"the loops around block {block.name!r} do not take each point of its iterators once:"
        f" {wrong.what}",
        about=block,
        given=wrong.given,
        because=wrong.because,
        try_="a binding for each loop, T.opaque(...) for a loop that repeats the block, or an `if`"
        " inside of the block",
    )


def _wrong_with_map(
    context: Context,
    ordered: list[Iter],
    ranges: Ranges,
    predicate: list[Expr],
    others: list[Iter] | None = None,
) -> ArithError | None:
    """Why the bindings do not fill the iterators' domain exactly once; None if they do.

    others: iterators that must fill a box together with these, whatever their ranges.
    """
    analyzer = _analyzer_without(context, ranges)
    bindings = [context.resolve(it.binding) for it in (*ordered, *(others or ()))]
    cut: Expr = TRUE
    for condition in predicate:
        cut = condition if cut is TRUE else And(cut, condition)
    try:
        found = detect_iter_map(bindings, ranges, cut, analyzer=analyzer)
    except ArithError as error:
        return error
    for it, start, extent in zip(ordered, found.starts, found.extents, strict=False):
        wanted = context.resolve(it.start), context.resolve(it.extent)
        if not (analyzer.equal(start, wanted[0]) and analyzer.equal(extent, wanted[1])):
            return ArithError(
                f"the binding of {it.var.name!r} takes other values than its range",
                given=f"{it.binding!r} takes {extent!r} values from {start!r},"
                f" {it.var.name!r} has {wanted[1]!r} from {wanted[0]!r}",
            )
    return None


def _analyzer_without(context: Context, ranges: Ranges) -> Analyzer:
    """What is known here without the variables of `ranges`: of them the detection binds its own."""
    analyzer = Analyzer()
    for fact in context.facts:
        if not any(v in ranges for v in _variables_of(fact)):
            if isinstance(fact, Range):
                analyzer.bind(fact.var, fact.start, fact.extent)
            else:
                analyzer.assume(fact)
    return analyzer


def _variables_of(fact: Fact) -> tuple[Var, ...]:
    if isinstance(fact, Range):
        return (fact.var, *free_vars(fact.start, fact.extent))
    return free_vars(fact)


def _check_inside(context: Context, block: Block, it: Iter) -> None:
    """The binding of an opaque iterator lies in its range, as far as data does not decide it."""
    binding, start = context.resolve(it.binding), context.resolve(it.start)
    stop = start + context.resolve(it.extent)
    for inside in (start <= binding, binding < stop):
        answer = context.prove(inside)
        if answer is False or (answer is None and not context.depends_on_data(binding)):
            context.report(
                BindingError,
                f"the binding of the iterator {it.var.name!r} of block {block.name!r} may leave its"
                " range",
                about=it,
                given=f"{it.binding!r}, and the range is {it.start!r} to"
                f" {stop_of(it.start, it.extent)!r}",
                try_="a range for the iterator that holds all values of its binding",
            )
            return


def check_regions(context: Context, block: Block) -> None:
    """The regions that `block` states cover what it accesses. Called inside of the block.

    What an external function does to the regions it is given is for the block to say: each must be
    among the reads or the writes.
    """
    if block.reads is None and block.writes is None:
        return
    accesses = footprint(block, context.analyzer).accesses
    known = cover([a for a in accesses if not _is_external(context, a)], context.analyzer)
    _check_passed(context, block, [a for a in accesses if _is_external(context, a)])
    for stated, derived, verb in (
        (block.reads, known.reads, "reads"),
        (block.writes, known.writes, "writes"),
    ):
        for region in derived if stated is not None else ():
            covers = [r for r in stated or () if r.buffer is region.buffer]
            if any(_covers(context, cover, region) for cover in covers):
                continue
            context.report(
                RegionError,
                f"block {block.name!r} {verb} more of {region.buffer.name!r} than it states",
                about=(block, region.buffer, verb),
                given=f"it {verb} {region!r}, and states {_list(covers)}",
                try_=f"T.{verb}({region!r}), or no T.{verb} at all: it is then derived",
            )


def _is_external(context: Context, access: Access) -> bool:
    stmt = access.stmt
    return isinstance(stmt, Invoke) and stmt.callee not in context.module.functions


def _check_passed(context: Context, block: Block, accesses: list[Access]) -> None:
    """Regions passed to external functions are among those that the block reads or writes."""
    if block.reads is None or block.writes is None:
        return
    for region in cover(accesses, context.analyzer).writes:
        covers = [r for r in (*block.reads, *block.writes) if r.buffer is region.buffer]
        if not any(_covers(context, stated, region) for stated in covers):
            context.report(
                RegionError,
                f"block {block.name!r} passes more of {region.buffer.name!r} than it states",
                about=(block, region.buffer, "passes"),
                given=f"it passes {region!r}, and states {_list(covers)}",
                because="an external function does what the block around it says",
                try_=f"T.reads({region!r}), T.writes({region!r}), or both",
            )


def _list(regions: list[Region]) -> str:
    return ", ".join(map(repr, regions)) or "nothing"


def _covers(context: Context, outer: Region, inner: Region) -> bool:
    prove, resolve = context.prove, context.resolve
    clipped = clip_region(inner, context.analyzer)
    for (start, extent), (first, size) in zip(outer.ranges, clipped.ranges, strict=True):
        if not all(is_index(e) for e in (start, extent)):
            return True  # reported as a wrong type
        stop, end = resolve(start + extent), resolve(first + size)
        if prove(resolve(start) <= resolve(first)) is not True or prove(end <= stop) is not True:
            return False
    return True
