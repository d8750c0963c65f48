"""The paper's figures, each in two flavours: `published` (the authors' formulas) and `audited` (what holds)."""
