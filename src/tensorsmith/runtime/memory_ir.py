"""The LLVM IR of the memory that compiled code works in, beside that of the thread pool.

A context keeps the blocks that its programs gave back, so that the next call finds them with their
pages mapped: a fresh arena of a hundred megabytes costs more page faults than many a model costs
arithmetic. Who owns what:

* ``ts_take(context, bytes)`` gives a block to its caller, aligned to 64 bytes, or null;
* ``ts_give(context, memory)`` gives it back: the context owns it, and hands it out again;
* a *cell*, an int64 of the program, owns the block whose address it holds: ``ts_hold`` makes it a
  copy of some bytes, ``ts_append`` lets it grow, ``ts_drop`` gives the block back and makes it 0;
* ``ts_trim(context)`` frees what the context owns; it is called when the context ends.

A context has `SLOTS` places for blocks, each a capacity and an address. A block is taken by an
atomic exchange of its address with null, so any number of threads may do so at once; the capacity
in the slot is a hint, and the one that counts is written before the block. The smallest block that
fits is taken. If none does, the largest is freed before a larger one is allocated: so there are
never more blocks than were needed at one time, and none is larger than the largest that was.
"""

from __future__ import annotations

from typing import Final

from tensorsmith.runtime.signature import NO_MEMORY

SLOTS: Final = 32
SLOTS_AT: Final = 16
"""Byte offset of the slots in a context."""
CONTEXT_WORDS: Final = SLOTS_AT // 8 + 2 * SLOTS
MOST_BYTES: Final = 1 << 46
FUNCTIONS: Final = ("ts_take", "ts_give", "ts_hold", "ts_append", "ts_drop", "ts_trim")


def memory_ir() -> str:
    """The IR."""
    return (
        _TEMPLATE.replace("$SLOTS_AT", str(SLOTS_AT))
        .replace("$SLOTS", str(SLOTS))
        .replace("$MOST", str(MOST_BYTES))
        .replace("$NO_MEMORY", str(NO_MEMORY))
    )


_TEMPLATE: Final = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umax.i64(i64, i64)

define internal i64 @capacity(ptr %memory) nounwind {
  %at = getelementptr i8, ptr %memory, i64 -64
  %bytes = load i64, ptr %at
  ret i64 %bytes
}

define internal void @release_block(ptr %memory) nounwind {
  %at = getelementptr i8, ptr %memory, i64 -64
  call void @free(ptr %at)
  ret void
}

define ptr @ts_take(ptr %context, i64 %bytes) nounwind {
entry:
  %slots = getelementptr i8, ptr %context, i64 $SLOTS_AT
  %huge = icmp ugt i64 %bytes, $MOST
  br i1 %huge, label %none, label %scan
scan:
  br label %head
head:
  %i = phi i64 [ 0, %scan ], [ %i1, %next ]
  %best = phi ptr [ null, %scan ], [ %best2, %next ]
  %least = phi i64 [ -1, %scan ], [ %least2, %next ]
  %small = phi ptr [ null, %scan ], [ %small2, %next ]
  %most = phi i64 [ 0, %scan ], [ %most2, %next ]
  %some = icmp ult i64 %i, $SLOTS
  br i1 %some, label %look, label %choose
look:
  %i1 = add i64 %i, 1
  %hintp = getelementptr [16 x i8], ptr %slots, i64 %i
  %placep = getelementptr i8, ptr %hintp, i64 8
  %hint = load atomic i64, ptr %hintp monotonic, align 8
  %held = load atomic ptr, ptr %placep monotonic, align 8
  %full = icmp ne ptr %held, null
  %enough = icmp uge i64 %hint, %bytes
  %less = icmp ult i64 %hint, %least
  %fits0 = and i1 %full, %enough
  %fits = and i1 %fits0, %less
  %best2 = select i1 %fits, ptr %placep, ptr %best
  %least2 = select i1 %fits, i64 %hint, i64 %least
  %short = xor i1 %enough, true
  %more = icmp uge i64 %hint, %most
  %low0 = and i1 %full, %short
  %low = and i1 %low0, %more
  %small2 = select i1 %low, ptr %placep, ptr %small
  %most2 = select i1 %low, i64 %hint, i64 %most
  br label %next
next:
  br label %head
choose:
  %found = icmp ne ptr %best, null
  br i1 %found, label %take, label %grow
take:
  %block = atomicrmw xchg ptr %best, ptr null seq_cst
  %lost = icmp eq ptr %block, null
  br i1 %lost, label %scan, label %measure
measure:
  %real = call i64 @capacity(ptr %block)
  %good = icmp uge i64 %real, %bytes
  br i1 %good, label %have, label %unfit
have:
  ret ptr %block
unfit:
  call void @release_block(ptr %block)
  br label %scan
grow:
  %old = icmp ne ptr %small, null
  br i1 %old, label %shed, label %allocate
shed:
  %shed_block = atomicrmw xchg ptr %small, ptr null seq_cst
  %gone = icmp eq ptr %shed_block, null
  br i1 %gone, label %allocate, label %free
free:
  call void @release_block(ptr %shed_block)
  br label %allocate
allocate:
  %eighth = lshr i64 %bytes, 3
  %roomy = add i64 %bytes, %eighth
  %padded = add i64 %roomy, 127
  %room = and i64 %padded, -64
  %all = add i64 %room, 64
  %start = call ptr @aligned_alloc(i64 64, i64 %all)
  %failed = icmp eq ptr %start, null
  br i1 %failed, label %none, label %made
made:
  store i64 %room, ptr %start
  %memory = getelementptr i8, ptr %start, i64 64
  ret ptr %memory
none:
  ret ptr null
}

define void @ts_give(ptr %context, ptr %memory) nounwind {
entry:
  %slots = getelementptr i8, ptr %context, i64 $SLOTS_AT
  %bytes = call i64 @capacity(ptr %memory)
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %some = icmp ult i64 %i, $SLOTS
  br i1 %some, label %look, label %full
look:
  %i1 = add i64 %i, 1
  %hintp = getelementptr [16 x i8], ptr %slots, i64 %i
  %placep = getelementptr i8, ptr %hintp, i64 8
  %held = load atomic ptr, ptr %placep monotonic, align 8
  %empty = icmp eq ptr %held, null
  br i1 %empty, label %put, label %next
put:
  store atomic i64 %bytes, ptr %hintp monotonic, align 8
  %swap = cmpxchg ptr %placep, ptr null, ptr %memory seq_cst seq_cst
  %done = extractvalue { ptr, i1 } %swap, 1
  br i1 %done, label %kept, label %next
next:
  br label %head
kept:
  ret void
full:
  call void @release_block(ptr %memory)
  ret void
}

define void @ts_trim(ptr %context) nounwind {
entry:
  %slots = getelementptr i8, ptr %context, i64 $SLOTS_AT
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %some = icmp ult i64 %i, $SLOTS
  br i1 %some, label %look, label %done
look:
  %i1 = add i64 %i, 1
  %hintp = getelementptr [16 x i8], ptr %slots, i64 %i
  %placep = getelementptr i8, ptr %hintp, i64 8
  %block = atomicrmw xchg ptr %placep, ptr null seq_cst
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %next, label %free
free:
  call void @release_block(ptr %block)
  br label %next
next:
  br label %head
done:
  ret void
}

define i32 @ts_append(ptr %context, ptr %cell, ptr %source, i64 %bytes, i64 %offset) nounwind {
entry:
  %need = add i64 %offset, %bytes
  %old = load ptr, ptr %cell
  %empty = icmp eq ptr %old, null
  br i1 %empty, label %grow, label %measure
measure:
  %room = call i64 @capacity(ptr %old)
  %fits = icmp ule i64 %need, %room
  br i1 %fits, label %copy, label %double
double:
  %twice = shl i64 %room, 1
  br label %grow
grow:
  %wanted = phi i64 [ 0, %entry ], [ %twice, %double ]
  %size = call i64 @llvm.umax.i64(i64 %need, i64 %wanted)
  %new = call ptr @ts_take(ptr %context, i64 %size)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %move
move:
  %kept = select i1 %empty, i64 0, i64 %offset
  %from = select i1 %empty, ptr %new, ptr %old
  call void @llvm.memmove.p0.p0.i64(ptr %new, ptr %from, i64 %kept, i1 false)
  br label %copy
copy:
  %home = phi ptr [ %old, %measure ], [ %new, %move ]
  %at = getelementptr i8, ptr %home, i64 %offset
  call void @llvm.memmove.p0.p0.i64(ptr %at, ptr %source, i64 %bytes, i1 false)
  store ptr %home, ptr %cell
  %moved = icmp ne ptr %home, %old
  %full = xor i1 %empty, true
  %left = and i1 %moved, %full
  br i1 %left, label %give, label %good
give:
  call void @ts_give(ptr %context, ptr %old)
  br label %good
good:
  ret i32 0
none:
  ret i32 $NO_MEMORY
}

define i32 @ts_hold(ptr %context, ptr %cell, ptr %source, i64 %bytes) nounwind {
  %code = call i32 @ts_append(ptr %context, ptr %cell, ptr %source, i64 %bytes, i64 0)
  ret i32 %code
}

define i32 @ts_drop(ptr %context, ptr %cell) nounwind {
entry:
  %old = load ptr, ptr %cell
  %empty = icmp eq ptr %old, null
  br i1 %empty, label %done, label %give
give:
  store ptr null, ptr %cell
  call void @ts_give(ptr %context, ptr %old)
  br label %done
done:
  ret i32 0
}
"""
