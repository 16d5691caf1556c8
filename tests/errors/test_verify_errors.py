"""The whole text of the verifier's errors, for programs that only the classes can say."""

from __future__ import annotations

from tensorsmith import ir
from tensorsmith.ir.dtype import int32
from tensorsmith.ir.stmt import LoopKind
from tensorsmith.verify import RULES, VerifyError, errors, verify
from verify.programs import ZERO, block, loop, only_problem, opaque, program, span, store

A = ir.Buffer("A", (8,))
T_LOCAL = ir.Buffer("t", (8,))
i, j = ir.Var("i"), ir.Var("j")
X = ir.Var("x", int32)


def test_store_type() -> None:
    text = "A[0] = 1"
    stmt = ir.Store(A, (ir.const(0),), ir.const(1, "int32"), span=span(text))
    assert only_problem(program(A, stmt), errors.StoreTypeError) == (
        "f.py:1:1: int32 is stored to 'A', which holds float32\n"
        "    A[0] = 1\n"
        "    ^^^^^^^^\n"
        "  given: T.int32(1): int32\n"
        "  try: T.cast(..., 'float32')"
    )


def test_condition_type() -> None:
    cases = {
        "an if": ir.If(X, store(A, 0)),
        "a while": ir.While(X, store(A, 0)),
        "an assert": ir.Assert(X, "message"),
        "block 'B'": block("B", [], store(A, 0), predicate=X),
    }
    for name, stmt in cases.items():
        assert only_problem(program(A, X, stmt), errors.ConditionTypeError) == (
            f"in 'f': the condition of {name} is int32, and must be bool\n"
            "  given: x: int32\n"
            "  try: a comparison, such as x != 0"
        )


def test_index_type() -> None:
    one = ir.const(1)
    cases = {
        "the extent of the loop over 'i'": ir.For(i, X, ir.Seq(())),
        "the start of the loop over 'i'": ir.For(i, one, ir.Seq(()), start=X),
        "the binding of the iterator 'j'": loop(i, 8, block("B", [opaque(j, 8, X)])),
        "the extent of the iterator 'j'": loop(i, 8, block("B", [opaque(j, X, i)])),
        "the start of the range of dimension 0 of 'A'": ir.Invoke(
            "e", (ir.Region(A, ((X, one),)),)
        ),
        "subscript 0 of 'A'": store(A, X),
    }
    for what, stmt in cases.items():
        assert only_problem(program(A, X, stmt), errors.IndexTypeError) == (
            f"in 'f': {what} is int32, and must be index\n"
            "  given: x: int32\n"
            "  try: T.cast(..., 'index')"
        )


def test_index_type_of_a_loop_variable() -> None:
    stmt = ir.For(ir.Var("i", int32), ir.const(8), ir.Seq(()))
    assert only_problem(program(A, stmt), errors.IndexTypeError) == (
        "in 'f': the loop variable 'i' is int32, and must be index\n"
        "  try: a cast of it where it is used"
    )


def test_bind_type() -> None:
    assert only_problem(program(A, ir.Bind(X, ir.const(1))), errors.BindTypeError) == (
        "in 'f': 'x' is int32, and its value is index\n  given: 1: index"
    )


def test_rank() -> None:
    assert only_problem(program(A, store(A, 0, 0)), errors.RankError) == (
        "in 'f': 'A' has rank 1, and is stored to with 2 subscripts\n"
        "  given: A: Buffer((8,), 'float32')"
    )


def test_defined_once() -> None:
    first = ir.For(i, ir.const(8), store(A, i), span=span("for i in range(8): ..."))
    assert only_problem(program(A, first, loop(i, 8, store(A, i))), errors.RedefinedError) == (
        "in 'f': 'i' is defined twice\n"
        "  given: defined first as loop variable at f.py:1:1\n"
        "  because: every variable and buffer has one definition in a program\n"
        "  try: a new Var or Buffer for each definition; they may share a name"
    )


def test_parameters_are_defined_once() -> None:
    assert only_problem(program(A, A), errors.RedefinedError) == (
        "in 'f': 'A' is defined twice\n"
        "  given: defined first as parameter\n"
        "  because: every variable and buffer has one definition in a program\n"
        "  try: a new Var or Buffer for each definition; they may share a name"
    )


def test_undefined_buffer() -> None:
    for stmt in (store(T_LOCAL, 0), store(A, 0, value=T_LOCAL[0])):
        assert only_problem(program(A, stmt), errors.UndefinedError) == (
            "in 'f': the buffer 't' is used, and nothing defines it before\n"
            "  try: a parameter, an allocation before this place"
        )


def test_out_of_scope_variable() -> None:
    stmts = loop(i, 8, store(A, i)), store(A, i, value=ZERO)
    assert only_problem(program(A, ir.Seq(stmts)), errors.OutOfScopeError) == OUT_OF_SCOPE.format(
        what="variable 'i'", role="loop variable"
    )


OUT_OF_SCOPE = (
    "in 'f': the {what} is used outside of its scope\n"
    "  given: defined first as {role}\n"
    "  because: what a loop, a block or a branch defines ends with it"
)


def test_out_of_scope_buffer() -> None:
    branch = ir.If(ir.equal(X, 0), ir.seq(ir.Alloc(T_LOCAL), store(T_LOCAL, 0)))
    after = store(A, 0, value=T_LOCAL[0])
    assert only_problem(program(A, X, branch, after), errors.OutOfScopeError) == (
        OUT_OF_SCOPE.format(what="buffer 't'", role="allocation")
    )


def test_thread_axis() -> None:
    def text(stmt: ir.Stmt) -> str:
        return only_problem(program(A, stmt), errors.ThreadAxisError)

    unnamed = loop(i, 8, store(A, i), kind=LoopKind.THREAD)
    assert text(unnamed) == (
        "in 'f': the thread loop over 'i' names no axis\n"
        "  because: a thread loop runs on a hardware axis, given by its name\n"
        '  try: T.thread("threadIdx.x", extent)'
    )
    wrong = ir.For(i, ir.const(8), store(A, i), LoopKind.THREAD, thread="the first")
    assert text(wrong).startswith("in 'f': the thread loop over 'i' names the axis 'the first'\n")
    serial = ir.For(i, ir.const(8), store(A, i), LoopKind.PARALLEL, thread="threadIdx.x")
    assert text(serial) == (
        "in 'f': the parallel loop over 'i' names the axis 'threadIdx.x'\n"
        "  because: only thread loops run on a hardware axis\n"
        '  try: T.thread("threadIdx.x", extent)'
    )


def test_function_name() -> None:
    for name in ("not a name", "class", ""):
        assert only_problem(program(A, name=name), errors.FunctionNameError) == (
            f"in {name!r}: a program cannot be called {name!r}\n"
            "  because: the name must be a Python identifier, and no keyword"
        )


def _nest(levels: int) -> ir.Stmt:
    stmt: ir.Stmt = store(A, 0)
    for _ in range(levels):
        stmt = loop(ir.Var("i"), 2, stmt)
    return stmt


def test_nesting() -> None:
    verify(program(A, _nest(79)))
    for levels in (80, 100_000):
        assert only_problem(program(A, _nest(levels)), errors.NestingError) == (
            "in 'f': statements are nested more than 80 deep\n"
            "  try: one loop over several indices, or programs that call each other"
        )


def test_every_rule_has_an_error_of_its_own() -> None:
    classes = {
        c
        for c in vars(errors).values()
        if isinstance(c, type) and issubclass(c, VerifyError) and c is not VerifyError
    }
    assert {rule.error for rule in RULES} == classes
    assert len(RULES) == len(classes) == len({rule.name for rule in RULES})
    assert all(rule.error.__doc__ for rule in RULES)
