"""Worker processes: the same code as here, errors by program, and no harm from what LLVM ends."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.codegen import build, compilation, workers
from tensorsmith.codegen.llvm.emit import Machine
from tensorsmith.codegen.workers import Job, Worker, compile_all, compile_apart, compile_jobs
from tensorsmith.errors import CodegenError
from tensorsmith.ir import IRModule, TensorProgram
from tensorsmith.target import Target

THIS = Target.host()
HOST = Machine(THIS.triple, THIS.cpu, THIS.llvm_features(), THIS.abi)
GOOD = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
BAD = "define i32 @f(i32 %x) {\n  ret i64 %x\n}\n"
# What selects an instruction that this machine has not.
FATAL = """
declare <16 x i8> @llvm.aarch64.neon.tbl1.v16i8(<16 x i8>, <16 x i8>)
define <16 x i8> @f(<16 x i8> %a, <16 x i8> %b) {
  %c = call <16 x i8> @llvm.aarch64.neon.tbl1.v16i8(<16 x i8> %a, <16 x i8> %b)
  ret <16 x i8> %c
}
"""


def added(name: str, amount: int) -> TensorProgram:
    a = te.placeholder((8,), name="A")
    return te.program([a], te.compute((8,), lambda i: a[i] + float(amount), "B"), name)


def module(count: int) -> IRModule:
    return IRModule.of(*(added(f"add_{k}", k) for k in range(count)))


def test_workers_make_the_code_that_is_made_here() -> None:
    jobs = [Job(f"f{k}", GOOD.replace("1", str(k)), HOST) for k in range(5)]
    assert compile_jobs(jobs, 2) == [workers.compile_here(job) for job in jobs]


def test_invalid_text_is_an_error_of_its_program() -> None:
    with pytest.raises(CodegenError) as caught:
        compile_jobs([Job("fine", GOOD, HOST), Job("wrong", BAD, HOST)], 2)
    text = str(caught.value)
    assert text.startswith("the code generated for 'wrong' is not valid\n  because: LLVM IR")
    assert text.endswith("(this is our bug)")


@pytest.mark.skipif(
    Target.host().arch != "x86_64", reason="the fatal text is one of another machine"
)
def test_what_ends_llvm_is_an_error_of_its_program_and_of_no_other() -> None:
    with pytest.raises(CodegenError) as caught:
        compile_jobs([Job("fine", GOOD, HOST), Job("fatal", FATAL, HOST)], 1)
    text = str(caught.value)
    assert text.startswith("LLVM has no code for something in 'fatal'\n  because: ")
    assert text.endswith(f"({HOST.triple})")
    assert (
        compile_apart(Job("fine", GOOD, HOST))[:4]
        == workers.compile_here(Job("fine", GOOD, HOST))[:4]
    )


def test_a_machine_that_llvm_has_not() -> None:
    with pytest.raises(CodegenError, match=r"^no code can be made for pdp11"):
        compile_apart(Job("f", GOOD, Machine("pdp11", "", "")))


def test_without_processes_all_is_made_here(monkeypatch) -> None:
    def refuse(self: Worker) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(Worker, "__init__", refuse)
    assert compile_jobs([Job("f", GOOD, HOST)], 2) == [workers.compile_here(Job("f", GOOD, HOST))]


def test_few_small_programs_are_compiled_here(monkeypatch) -> None:
    monkeypatch.setattr(Worker, "__init__", lambda self: pytest.fail("a worker was started"))
    jobs = [Job(f"f{k}", GOOD, HOST) for k in range(4)]
    assert len(compile_all(jobs, processors=2)) == 4


def test_a_large_module_is_compiled_by_workers(monkeypatch) -> None:
    started: list[Worker] = []
    original = Worker.__init__

    def record(self: Worker) -> None:
        started.append(self)
        original(self)

    monkeypatch.setattr(Worker, "__init__", record)
    monkeypatch.setattr(workers, "SECONDS_PER_BYTE", 1.0)
    made = build(module(6), Target.host(), threads=1, cache=False)
    assert len(started) <= Target.host().cores
    assert started or Target.host().cores == 1
    for k in range(6):
        b = np.zeros(8, np.float32)
        made[f"add_{k}"](np.ones(8, np.float32), b)
        assert (b == 1 + k).all()


def test_what_cannot_be_lowered_stops_the_rest() -> None:
    def jobs():
        yield Job("f", GOOD, HOST)
        raise CodegenError("no code for the second")

    with pytest.raises(CodegenError, match="no code for the second"):
        compile_all(jobs(), 2)


def test_an_error_here_is_one_of_its_program() -> None:
    jobs = [Job("fine", GOOD, HOST), Job("wrong", BAD, HOST), Job("fine too", GOOD, HOST)]
    with pytest.raises(CodegenError, match="the code generated for 'wrong' is not valid"):
        compile_all(jobs, 1)


def test_no_process_is_left_behind() -> None:
    with Worker() as worker:
        process = worker._process
        worker.compile(Job("f", GOOD, HOST))
    assert process.returncode == 0


def test_programs_that_call_each_other_are_compiled_together() -> None:
    @T.module
    class Calls:
        @T.program
        def inner(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                B[i] = A[i] * 2.0

        @T.program
        def other(A: T.Buffer((8,), "float32")):
            for i in range(8):
                A[i] = 0.0

        @T.program
        def outer(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            T.call("inner", A[0:8], B[0:8])

    parts = [tuple(part.defined) for part in compilation.split(Calls)]
    assert parts == [("inner", "outer"), ("other",)]
    exe = build(Calls, threads=1)
    a, b = np.ones(8, np.float32), np.zeros(8, np.float32)
    a.flags.writeable = False  # the call only reads it
    exe["outer"](a, b)
    assert (b == 2).all()
    assert [p.is_written for p in exe["outer"].signature.parameters] == [False, True]
