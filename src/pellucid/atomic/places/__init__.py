"""Places as processes with a durable log: messages in channels, transactions that commit as a set or are undone.

What it means is the extended calculus of `pellucid.atomic` (rules ``crash``): a transaction depends on those whose
messages it took, a mutually dependent set commits together or not at all, an abort puts back what was taken.
"""
