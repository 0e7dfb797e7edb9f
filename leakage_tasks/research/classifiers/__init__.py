"""Data, victims and canaries that studies of text classifiers share."""
