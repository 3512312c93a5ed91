"""A local page of runs and studies as they grow. It only reads: closing it stops nothing, and nothing is written."""
