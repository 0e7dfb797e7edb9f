"""Training the victims: text at hand, trainers, and the demo that shows the whole way."""
