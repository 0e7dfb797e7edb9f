"""The demo and the showcase: the whole way from a canary to a report."""
