"""What ``compat.py`` runs: small models and tokenizers of many kinds, and the attacks on them beside the harness."""
