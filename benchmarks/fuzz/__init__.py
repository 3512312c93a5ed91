"""Standing tools that try to break trimtab: `make fuzz` (minutes) and `make soak` (hours).

Each tool is a function of cases and a tally. A case follows from the tool's name, a seed and its number alone, so
that it can be repeated. `ledger` adds up
the counts of all invocations in docs/results/robustness.json.
"""
