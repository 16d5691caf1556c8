"""From Python's syntax trees to statements, with an evaluator of expressions of its own."""
