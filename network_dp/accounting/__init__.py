"""What happened, in epsilon: accountants, each valid by a proof that its docstring states or cites (THEORY.md)."""
