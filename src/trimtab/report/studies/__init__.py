"""Figures of the studies, from their tables."""
