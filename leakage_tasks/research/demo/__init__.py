"""The demo and the showcase: all steps from canaries to a report."""
