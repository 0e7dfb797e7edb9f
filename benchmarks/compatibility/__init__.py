"""Small models and tokenizers of many kinds for ``compat.py``, and the comparison of attacks with the harness."""
