"""Gradient anatomy: the estimators, and what feeds them from JAX. `trimtab.anatomy` has the public names."""
