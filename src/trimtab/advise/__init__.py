"""Rules of thumb: held against a configuration (`plan`) or a run's records (`doctor`), or swept (`tune`). No JAX.

Sources: tuning notes for n_envs, n_steps and batch size ("notes"); Hilton, Cobbe & Schulman 2021, "Batch
size-invariance for policy optimization" ("paper"); "Effect of Parallel Environments and Rollout Steps in PPO" ("post").
A rule that has none says that it is this project's own ("own").
"""
