"""Training of victim models: data sets, networks and trainers."""
