"""The five papers' studies, the models they train and the demos; no other room imports it."""
