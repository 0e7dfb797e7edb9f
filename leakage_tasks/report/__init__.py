"""Findings made readable, in pictures first of all."""
