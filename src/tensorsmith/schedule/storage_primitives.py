"""Primitives that say how local buffers are stored, as users call them."""

from __future__ import annotations

from tensorsmith.ir import DType
from tensorsmith.schedule import storage
from tensorsmith.schedule.primitive import Scheduled, primitive
from tensorsmith.schedule.refs import BlockRef


class StoragePrimitives(Scheduled):
    """How local buffers are stored."""

    @primitive
    def set_scope(self, block: BlockRef, buffer: int | str, scope: str) -> None:
        """Put a local buffer that a block writes into other memory.

        buffer: by name, or by its position among the buffers that the block writes.
        scope: 'global', 'local' (private to a thread, in registers where possible), 'shared', ...

        Not legal for parameters, or if the scope is not a dotted name.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> C = te.compute((64,), lambda i: B[i] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> print(s.program.body.stmts[0])
        B = T.alloc((64,), "float32")
        >>> s.set_scope(s.get_block("B"), "B", "shared")
        >>> print(s.program.body.stmts[0])
        B = T.alloc((64,), "float32", scope="shared")
        """
        self._update(storage.set_scope(self._of(block), block.name, buffer, scope))

    @primitive
    def storage_align(
        self, block: BlockRef, buffer: int | str, axis: int, factor: int, offset: int = 0
    ) -> None:
        """Store a local buffer that a block writes so that the stride of a dimension is `offset`
        modulo `factor` elements: the least such stride that has room for the dimensions inside.

        Rows that are no power of two apart do not meet in the same sets of a cache or banks of a
        shared memory. A buffer with strides keeps its size: it does not shrink to what a loop uses.

        Not legal for parameters, for buffers with a layout, or if there is no such dimension or
        stride.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64, 64), name="A")
        >>> B = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, "B")
        >>> C = te.compute((64, 64), lambda i, j: B[j, i] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> print(s.program.body.stmts[0])
        B = T.alloc((64, 64), "float32")
        >>> s.storage_align(s.get_block("B"), "B", 0, 32, 8)
        >>> print(s.program.body.stmts[0])
        B = T.alloc((64, 64), "float32", strides=(72, 1))
        """
        program = self._of(block)
        self._update(storage.storage_align(program, block.name, buffer, axis, factor, offset))

    @primitive
    def unsafe_set_dtype(self, block: BlockRef, buffer: int | str, dtype: DType | str) -> None:
        """Store a local buffer that a block writes with elements of another type.

        Values are cast where they are written and back where they are read; what the other type
        cannot hold is lost, which is why this is called unsafe: results may change.

        Not legal for parameters, if there is no such type, or if the buffer is passed to a call.

        >>> from tensorsmith import te
        >>> from tensorsmith.schedule import Schedule
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2.0, "B")
        >>> C = te.compute((64,), lambda i: B[i] + 1.0, "C")
        >>> s = Schedule(te.program([A], C, "f"))
        >>> s.unsafe_set_dtype(s.get_block("B"), "B", "float16")
        >>> print(s.program.body)
        B = T.alloc((64,), "float16")
        for i in range(64):
            with T.block("B"):
                vi = T.remap("S", i)
                B[vi] = T.float16(A[vi] * 2.0)
        for i in range(64):
            with T.block("C"):
                vi = T.remap("S", i)
                C[vi] = T.float32(B[vi]) + 1.0
        """
        self._update(storage.unsafe_set_dtype(self._of(block), block.name, buffer, dtype))
