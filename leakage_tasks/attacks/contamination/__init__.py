"""Contamination: does a model know the items of a benchmark, or their order?"""
