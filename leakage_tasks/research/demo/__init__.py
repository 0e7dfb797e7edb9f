"""The demo and the showcase: complete audits, from canaries to a report."""
