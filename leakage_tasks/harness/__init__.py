"""The interface to the evaluation harness: registration of the plugin, the classes of the harness, and the differences
between its generations."""
