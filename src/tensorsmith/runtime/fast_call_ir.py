"""The LLVM IR of `fast_call`.

The description of a program is a row of 64-bit words: the address of its entry, of the runtime's
context, the number of parameters; then for each parameter its kind, the flags of the buffer
protocol, and the least and greatest value of an integer. It is the first item of the tuple that
the function carries; the second takes over what is not known here, the third raises the error of a
code.
"""

from __future__ import annotations

from typing import Final

ANY_TENSOR, EXCHANGE, INTEGER, BOOLEAN, FLOAT32, FLOAT64 = range(6)
"""Kinds of parameters. EXCHANGE: a tensor of a type that NumPy's buffer protocol does not know."""

FUNCTIONS: Final = (
    "PyBuffer_Release",
    "PyBytes_AsString",
    "PyErr_Clear",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyObject_GetAttr",
    "PyObject_GetBuffer",
    "PyObject_Vectorcall",
    "PyTuple_GetItem",
    "PyType_IsSubtype",
    "Py_DecRef",
    "Py_IncRef",
)
"""The functions of CPython that are used."""


def fast_call_ir(type_offset: int) -> str:
    """The IR; `type_offset` is where an object has its type, in bytes."""
    return _TEMPLATE.replace("$TYPE", str(type_offset))


# A frame holds what one argument needs: a Py_buffer (80 bytes: buf 0, obj 8, itemsize 24, ndim 36,
# format 40, shape 48, strides 56), a DLTensor at 80, and at 128 up to 8 strides that count
# elements. Py_buffer's `obj` is null where there is nothing to release.
_TEMPLATE: Final = """
@PyLong_Type = external global i8
@PyFloat_Type = external global i8
@ndarray = external global i8
@np_integer = external global i8
@np_floating = external global i8
@_Py_TrueStruct = external global i8
@_Py_FalseStruct = external global i8
@_Py_NoneStruct = external global i8
@torch = external global [3 x ptr]
@format_codes = external global [256 x i8]

declare void @PyBuffer_Release(ptr)
declare ptr @PyBytes_AsString(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare i64 @llvm.cttz.i64(i64, i1)

; Fill a frame's DLTensor from its Py_buffer. Gives whether that is possible.
define internal i1 @describe_buffer(ptr %frame) nounwind {
entry:
  %data = load ptr, ptr %frame
  %itemsizep = getelementptr i8, ptr %frame, i64 24
  %itemsize = load i64, ptr %itemsizep
  %rankp = getelementptr i8, ptr %frame, i64 36
  %rank = load i32, ptr %rankp
  %formatp = getelementptr i8, ptr %frame, i64 40
  %format = load ptr, ptr %formatp
  %shapep = getelementptr i8, ptr %frame, i64 48
  %shape = load ptr, ptr %shapep
  %stepsp = getelementptr i8, ptr %frame, i64 56
  %steps = load ptr, ptr %stepsp
  %anonymous = icmp eq ptr %format, null
  br i1 %anonymous, label %no, label %named
named:
  %letter = load i8, ptr %format
  %restp = getelementptr i8, ptr %format, i64 1
  %rest = load i8, ptr %restp
  %wide = zext i8 %letter to i64
  %codep = getelementptr i8, ptr @format_codes, i64 %wide
  %code = load i8, ptr %codep
  %unknown = icmp eq i8 %code, 255
  %long = icmp ne i8 %rest, 0
  %deep = icmp ugt i32 %rank, 8
  %bad0 = or i1 %unknown, %long
  %bad = or i1 %bad0, %deep
  br i1 %bad, label %no, label %fill
fill:
  %tensor = getelementptr i8, ptr %frame, i64 80
  store ptr %data, ptr %tensor
  %device = getelementptr i8, ptr %tensor, i64 8
  store i64 1, ptr %device
  %ndim = getelementptr i8, ptr %tensor, i64 16
  store i32 %rank, ptr %ndim
  %size = trunc i64 %itemsize to i32
  %bits = shl i32 %size, 11
  %kind = zext i8 %code to i32
  %type0 = or i32 %bits, %kind
  %type = or i32 %type0, 65536
  %dtype = getelementptr i8, ptr %tensor, i64 20
  store i32 %type, ptr %dtype
  %shapes = getelementptr i8, ptr %tensor, i64 24
  store ptr %shape, ptr %shapes
  %own = getelementptr i8, ptr %frame, i64 128
  %strides = getelementptr i8, ptr %tensor, i64 32
  store ptr %own, ptr %strides
  %offset = getelementptr i8, ptr %tensor, i64 40
  store i64 0, ptr %offset
  %shift = call i64 @llvm.cttz.i64(i64 %itemsize, i1 true)
  %mask = sub i64 %itemsize, 1
  %last = zext i32 %rank to i64
  br label %head
head:
  %axis = phi i64 [ 0, %fill ], [ %following, %stride ]
  %odd = phi i64 [ 0, %fill ], [ %odder, %stride ]
  %more = icmp ult i64 %axis, %last
  br i1 %more, label %stride, label %done
stride:
  %stepp = getelementptr i64, ptr %steps, i64 %axis
  %step = load i64, ptr %stepp
  %low = and i64 %step, %mask
  %odder = or i64 %odd, %low
  %elements = ashr i64 %step, %shift
  %ownp = getelementptr i64, ptr %own, i64 %axis
  store i64 %elements, ptr %ownp
  %following = add i64 %axis, 1
  br label %head
done:
  %whole = icmp eq i64 %odd, 0
  ret i1 %whole
no:
  ret i1 false
}

; Fill a frame's DLTensor from a torch tensor that needs no gradient and has memory.
define internal i1 @describe_torch(ptr %object, ptr %frame) nounwind {
entry:
  %namep = getelementptr [3 x ptr], ptr @torch, i64 0, i64 2
  %name = load ptr, ptr %namep
  %flag = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %failed = icmp eq ptr %flag, null
  br i1 %failed, label %no, label %got
got:
  call void @Py_DecRef(ptr %flag)
  %free = icmp eq ptr %flag, @_Py_FalseStruct
  br i1 %free, label %ask, label %no
ask:
  %functionp = getelementptr [3 x ptr], ptr @torch, i64 0, i64 1
  %function = load ptr, ptr %functionp
  %tensor = getelementptr i8, ptr %frame, i64 80
  %code = call i32 %function(ptr %object, ptr %tensor)
  %fine = icmp eq i32 %code, 0
  %data = load ptr, ptr %tensor
  %real = icmp ne ptr %data, null
  %both = and i1 %fine, %real
  ret i1 %both
no:
  ret i1 false
}

define internal i1 @is_instance(ptr %type, ptr %exact, ptr %base) nounwind {
  %same = icmp eq ptr %type, %exact
  br i1 %same, label %yes, label %ask
ask:
  %sub = call i32 @PyType_IsSubtype(ptr %type, ptr %base)
  %is = icmp ne i32 %sub, 0
  ret i1 %is
yes:
  ret i1 true
}

define internal i1 @read_integer(ptr %object, ptr %type, ptr %parameter, ptr %slot) nounwind {
entry:
  %is = call i1 @is_instance(ptr %type, ptr @PyLong_Type, ptr @np_integer)
  br i1 %is, label %read, label %no
read:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %value, ptr %slot
  %lowp = getelementptr i8, ptr %parameter, i64 16
  %low = load i64, ptr %lowp
  %highp = getelementptr i8, ptr %parameter, i64 24
  %high = load i64, ptr %highp
  %over = icmp sge i64 %value, %low
  %under = icmp sle i64 %value, %high
  %fits = and i1 %over, %under
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %ask, label %told
ask:
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  %good = and i1 %none, %fits
  ret i1 %good
told:
  ret i1 %fits
no:
  ret i1 false
}

define internal i1 @read_bool(ptr %object, ptr %slot) nounwind {
  %true = icmp eq ptr %object, @_Py_TrueStruct
  %false = icmp eq ptr %object, @_Py_FalseStruct
  %word = zext i1 %true to i64
  store i64 %word, ptr %slot
  %either = or i1 %true, %false
  ret i1 %either
}

define internal i1 @read_float(ptr %object, ptr %type, i1 %double, ptr %slot) nounwind {
entry:
  %floating = call i1 @is_instance(ptr %type, ptr @PyFloat_Type, ptr @np_floating)
  br i1 %floating, label %read, label %integral
integral:
  %integer = call i1 @is_instance(ptr %type, ptr @PyLong_Type, ptr @np_integer)
  br i1 %integer, label %read, label %no
read:
  %value = call double @PyFloat_AsDouble(ptr %object)
  br i1 %double, label %wide, label %narrow
wide:
  store double %value, ptr %slot
  br label %stored
narrow:
  %single = fptrunc double %value to float
  store float %single, ptr %slot
  br label %stored
stored:
  %suspect = fcmp oeq double %value, -1.0
  br i1 %suspect, label %ask, label %yes
ask:
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  ret i1 %none
yes:
  ret i1 true
no:
  ret i1 false
}

; Turn one argument into its slot. Gives whether that is possible; if not, an error may be set.
define internal i1 @prepare(ptr %object, ptr %parameter, ptr %frame, ptr %slot) nounwind {
entry:
  %typep = getelementptr i8, ptr %object, i64 $TYPE
  %type = load ptr, ptr %typep
  %kind = load i64, ptr %parameter
  switch i64 %kind, label %no [
    i64 0, label %any
    i64 1, label %exchange
    i64 2, label %integer
    i64 3, label %bool
    i64 4, label %single
    i64 5, label %double
  ]
any:
  %array = icmp eq ptr %type, @ndarray
  br i1 %array, label %buffer, label %exchange
buffer:
  %flagsp = getelementptr i8, ptr %parameter, i64 8
  %flags = load i32, ptr %flagsp
  %code = call i32 @PyObject_GetBuffer(ptr %object, ptr %frame, i32 %flags)
  %held = icmp eq i32 %code, 0
  br i1 %held, label %described, label %no
described:
  %b = call i1 @describe_buffer(ptr %frame)
  br label %tensor
exchange:
  %torch = load ptr, ptr @torch
  %is_torch = icmp eq ptr %type, %torch
  br i1 %is_torch, label %foreign, label %no
foreign:
  %t = call i1 @describe_torch(ptr %object, ptr %frame)
  br label %tensor
tensor:
  %known = phi i1 [ %b, %described ], [ %t, %foreign ]
  %place = getelementptr i8, ptr %frame, i64 80
  store ptr %place, ptr %slot
  ret i1 %known
integer:
  %i = call i1 @read_integer(ptr %object, ptr %type, ptr %parameter, ptr %slot)
  ret i1 %i
bool:
  %l = call i1 @read_bool(ptr %object, ptr %slot)
  ret i1 %l
single:
  %s = call i1 @read_float(ptr %object, ptr %type, i1 false, ptr %slot)
  ret i1 %s
double:
  %d = call i1 @read_float(ptr %object, ptr %type, i1 true, ptr %slot)
  ret i1 %d
no:
  ret i1 false
}

define internal void @release(ptr %frames, i64 %count) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %frame = getelementptr [192 x i8], ptr %frames, i64 %i
  %ownerp = getelementptr i8, ptr %frame, i64 8
  %owner = load ptr, ptr %ownerp
  %empty = icmp eq ptr %owner, null
  br i1 %empty, label %next, label %drop
drop:
  call void @PyBuffer_Release(ptr %frame)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %head
done:
  ret void
}

; Have the third item raise what an error code means: it gets the code and the arguments.
define internal ptr @raise(ptr %self, i32 %code, ptr %args, i64 %count) nounwind {
entry:
  %all = add i64 %count, 1
  %passed = alloca ptr, i64 %all
  %wide = sext i32 %code to i64
  %number = call ptr @PyLong_FromLongLong(i64 %wide)
  %none = icmp eq ptr %number, null
  br i1 %none, label %failed, label %first
first:
  store ptr %number, ptr %passed
  br label %head
head:
  %i = phi i64 [ 0, %first ], [ %i1, %copy ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %copy, label %call
copy:
  %from = getelementptr ptr, ptr %args, i64 %i
  %i1 = add i64 %i, 1
  %to = getelementptr ptr, ptr %passed, i64 %i1
  %object = load ptr, ptr %from
  store ptr %object, ptr %to
  br label %head
call:
  %raiser = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %result = call ptr @PyObject_Vectorcall(ptr %raiser, ptr %passed, i64 %all, ptr null)
  call void @Py_DecRef(ptr %number)
  ret ptr %result
failed:
  ret ptr null
}

define ptr @ts_fast_call(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %bytes = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %program = call ptr @PyBytes_AsString(ptr %bytes)
  %entryp = load ptr, ptr %program
  %contextp = getelementptr i8, ptr %program, i64 8
  %context = load ptr, ptr %contextp
  %countp = getelementptr i8, ptr %program, i64 16
  %count = load i64, ptr %countp
  %right = icmp eq i64 %given, %count
  br i1 %right, label %begin, label %general
begin:
  %slots = alloca i64, i64 %count
  %frames = alloca [192 x i8], i64 %count, align 16
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %i1, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %run
one:
  %i1 = add i64 %i, 1
  %objectp = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %objectp
  %skipped = getelementptr i8, ptr %program, i64 24
  %parameter = getelementptr [32 x i8], ptr %skipped, i64 %i
  %frame = getelementptr [192 x i8], ptr %frames, i64 %i
  %ownerp = getelementptr i8, ptr %frame, i64 8
  store ptr null, ptr %ownerp
  %slot = getelementptr i64, ptr %slots, i64 %i
  %known = call i1 @prepare(ptr %object, ptr %parameter, ptr %frame, ptr %slot)
  br i1 %known, label %head, label %unknown
run:
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %entryp(ptr %slots, ptr %context)
  call void @PyEval_RestoreThread(ptr %thread)
  call void @release(ptr %frames, i64 %count)
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %good, label %bad
good:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
bad:
  %raised = call ptr @raise(ptr %self, i32 %code, ptr %args, i64 %count)
  ret ptr %raised
unknown:
  call void @PyErr_Clear()
  call void @release(ptr %frames, i64 %i1)
  br label %general
general:
  %taker = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %result = call ptr @PyObject_Vectorcall(ptr %taker, ptr %args, i64 %given, ptr null)
  ret ptr %result
}
"""
