"""The kinds of secrets that can be detected in text: one module for each family of kinds."""
