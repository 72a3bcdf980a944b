"""Libraries of a few ledger lines, and what is advised on them."""

from umimill import advice
from umimill.summary import LedgerRow, Library, Sample


def checkout(name="L1", assigned=100, samples=None, provenance=None, jobs=(), sizes=None, **lines):
    """A library whose checkout lines are `lines` and `assigned`, in one sample."""
    rows = [LedgerRow("checkout", None, line, n) for line, n in lines.items()]
    rows.append(LedgerRow("checkout", "S1", "assigned", assigned))
    samples = samples or (Sample(name, "S1", assigned, assigned // 4 or 1),)
    return Library(name, samples, tuple(jobs), tuple(rows), sizes or {}, provenance or {})


def texts(*libraries):
    return [(item.level, item.text) for item in advice.advise(libraries)]
