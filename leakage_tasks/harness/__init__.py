"""The interface to the evaluation harness: registration of the plugin, the harness' classes, and its version
differences."""
