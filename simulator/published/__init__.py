"""What the authors' experiment code computes, re-derived for whole arrays: to recognise the paper's figures only.

Several of these formulas are wrong (THEORY.md#printed; docs/FIGURES.md). Nothing but a figure of flavour "published"
may use them.
"""
