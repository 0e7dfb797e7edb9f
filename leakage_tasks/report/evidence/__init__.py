"""Evidence on the leakage of one model, as a page with a record that can be checked offline."""
