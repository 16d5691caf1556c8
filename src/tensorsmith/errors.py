"""The errors that a user can cause, and how they read.

Every error says what is wrong, where, why, and what would be right::

    TensorsmithError
    ├── DTypeError (TypeError)          operands or values of the wrong element type
    ├── ShapeError (ValueError)         wrong rank, extent or stride
    ├── ScriptError (SyntaxError)       a script that is not a tensor program
    ├── IRError (ValueError)            a program that breaks a rule of well-formedness
    ├── EvaluationError (RuntimeError)  a program that goes wrong while it runs
    │   ├── OutOfBoundsError (IndexError)
    │   └── UninitializedError
    ├── ArithError (ValueError)         an index map or fact that does not hold
    ├── TargetError (ValueError)        an unknown machine, or one that lacks what is asked
    ├── CodegenError (ValueError)       a program that no code can be made for
    ├── ArtifactError (ValueError)      a saved model that is damaged, or made for another machine
    ├── UntrustedModelError (ValueError)
    │                                   a model file that is damaged, or not what it says it is
    └── UnsupportedOpError (NotImplementedError)
                                        a model that uses what there is no converter for

An ``assert`` marks an invariant of our own: reaching one is our bug.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A text that a user wrote: its name (a path, or ``<string>``) and its whole content."""

    name: str
    text: str = field(repr=False)
    first_line: int = 1
    """The line number of the first line of `text` in the file `name`."""

    def line(self, number: int) -> str:
        """The text of line `number` (as the file counts), or '' when there is none."""
        lines = self.text.splitlines()
        at = number - self.first_line
        return lines[at] if 0 <= at < len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source. Lines count from 1, columns from 0, ends are exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column + 1}"

    def excerpt(self) -> str:
        """The source line with carets below the span; '' when the text is not at hand."""
        line = self.source.line(self.line)
        if not line.strip():
            return ""
        end = self.end_column if self.end_line == self.line else len(line.rstrip())
        indent = len(line) - len(line.lstrip())
        column = max(self.column, indent)
        carets = "^" * max(1, end - column)
        return f"    {line.strip()}\n    {' ' * (column - indent)}{carets}"


class TensorsmithError(Exception):
    """Base of every error that bad input can cause.

    Printed as ``where: what``, the source line, and one line each for `given`, `because` and
    `try_`, those that are set.
    """

    def __init__(
        self,
        what: str,
        *,
        where: Span | str | None = None,
        given: str | None = None,
        because: str | None = None,
        try_: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.given = given
        self.because = because
        self.try_ = try_

    def at(self, where: Span | str | None) -> TensorsmithError:
        """This error, placed at `where` unless it has a place already."""
        if self.where is None:
            self.where = where
        return self

    def __str__(self) -> str:
        lines = [self.what if self.where is None else f"{self.where}: {self.what}"]
        if isinstance(self.where, Span) and (excerpt := self.where.excerpt()):
            lines.append(excerpt)
        for label, text in (("given", self.given), ("because", self.because), ("try", self.try_)):
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)


class DTypeError(TensorsmithError, TypeError):
    """Operands, values or indices have an element type that the operation does not take."""


class ShapeError(TensorsmithError, ValueError):
    """A rank, an extent or a stride is not what the operation needs."""


class ScriptError(TensorsmithError, SyntaxError):
    """A script-form function holds something that is not a tensor program.

    Prints as every error of ours does; being a ``SyntaxError`` lets tools that know Python's
    own syntax errors find the file and line.
    """

    __str__ = TensorsmithError.__str__


class IRError(TensorsmithError, ValueError):
    """A program or module breaks a rule of well-formedness."""


class EvaluationError(TensorsmithError, RuntimeError):
    """A program went wrong while it was evaluated: a failed check, a division by zero, ..."""


class OutOfBoundsError(EvaluationError, IndexError):
    """A program read or wrote outside a buffer."""


class UninitializedError(EvaluationError):
    """A program read an element that nothing had written."""


class ArithError(TensorsmithError, ValueError):
    """An index map is not what the request needs, or facts contradict each other."""


class TargetError(TensorsmithError, ValueError):
    """A target is not known, or lacks what is asked of it."""


class CodegenError(TensorsmithError, ValueError):
    """A well-formed program holds something that the code generator has no code for."""


class ArtifactError(TensorsmithError, ValueError):
    """A saved model is damaged, has another format, or was compiled for another machine."""


class UntrustedModelError(TensorsmithError, ValueError):
    """A model file is damaged or truncated, contradicts itself, or asks for what no model may."""


class UnsupportedOpError(TensorsmithError, NotImplementedError):
    """A model uses operators, attributes or versions that there is no converter for."""
