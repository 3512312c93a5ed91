"""`trimtab plan`: what a configuration comes to, and what the rules of thumb say of it, before anything runs."""

from __future__ import annotations

from typing import Any

from trimtab.config import Config
from trimtab.playbook.finding import Finding, ordered
from trimtab.playbook.sizes import Action, check_sizes


def plan(config: Config) -> list[Finding]:
    """Every rule about sizes, most pressing first."""
    environment = look(config)
    limit = config.time_limit or environment.get("time_limit")
    return ordered(list(check_sizes(config, environment.get("action"), limit)))


def look(config: Config) -> dict[str, Any]:
    """Action space and time limit as Gymnasium tells them, where it knows the id; JAX is not loaded for this."""
    import gymnasium

    try:
        spec = gymnasium.spec(config.env_id)
        space = gymnasium.make(config.env_id, **config.env_kwargs).action_space
    except Exception:  # whatever an environment's own code raises: then it is not known here
        return {}
    if isinstance(space, gymnasium.spaces.Discrete):
        return {"action": Action("discrete", int(space.n)), "time_limit": spec.max_episode_steps}
    if isinstance(space, gymnasium.spaces.Box):
        return {"action": Action("continuous", int(space.shape[0])), "time_limit": spec.max_episode_steps}
    return {"time_limit": spec.max_episode_steps}
