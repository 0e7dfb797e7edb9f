"""Shared infrastructure without domain logic: errors, logging, options, registries, file reading and writing."""
