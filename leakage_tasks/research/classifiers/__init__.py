"""What studies of text classifiers share: data, victims, canaries."""
