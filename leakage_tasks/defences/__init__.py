"""What keeps a model from learning its data by heart."""
