"""`trimtab plan`: what a configuration comes to, and what the rules of thumb say of it, before anything runs."""

from __future__ import annotations

from typing import Any

from trimtab.config import Config
from trimtab.envs.names import ATARI_IDS, PROCGEN_ALIASES, canonical
from trimtab.playbook.finding import Finding, ordered
from trimtab.playbook.sizes import Action, check_sizes
from trimtab.runs import disk
from trimtab.runs.memory import human

MOST_ACTIONS = 18  # of any Atari game: what a head has at most where the game's own number is not known


def plan(config: Config) -> list[Finding]:
    """Every rule about sizes, most pressing first."""
    environment = look(config)
    limit = config.time_limit or environment.get("time_limit")
    sizes = check_sizes(config, environment.get("action"), limit)
    return ordered([*sizes, disk_space(config, environment.get("obs_shape"), environment.get("action"))])


def disk_space(config: Config, obs_shape: tuple[int, ...] | None, action: Action | None) -> Finding:
    """What the run will take on disk, and how many checkpoints it keeps unless told otherwise."""
    if obs_shape is None:
        return Finding("disk", "unknown", "what a checkpoint takes is not known without loading the environment")
    outputs, continuous = (action.size, action.kind == "continuous") if action else (MOST_ACTIONS, False)
    numbers = disk.parameters(config, obs_shape, outputs, continuous)
    size = disk.checkpoint_bytes(config, numbers)
    count = min(disk.usual_checkpoints(size), config.iterations)
    total = disk.run_bytes(config, size, count)
    seen = f"about {human(total)}: {count} checkpoints and the start, {human(size)} each ({numbers:,} parameters)"
    if count < min(disk.USUAL, config.iterations):
        return Finding(
            "disk", "note", seen, f"fewer than {disk.USUAL}, being large; --checkpoints decides", value=total
        )
    return Finding("disk", "fine", seen, value=total)


def look(config: Config) -> dict[str, Any]:
    """Action space, shape of observations and time limit, as far as they are known; JAX is not loaded for this."""
    env_id = canonical(config.env_id)
    if env_id in PROCGEN_ALIASES.values():
        return {"obs_shape": (64, 64, 3), "action": Action("discrete", 15)}
    if env_id in ATARI_IDS:
        return {"obs_shape": (84, 84, 4)}
    import gymnasium

    try:
        spec = gymnasium.spec(config.env_id)
        made = gymnasium.make(config.env_id, **config.env_kwargs)
        space, seen = made.action_space, made.observation_space
    except Exception:  # whatever an environment's own code raises: then it is not known here
        return {}
    known: dict[str, Any] = {"time_limit": spec.max_episode_steps, "obs_shape": _shape(seen)}
    if isinstance(space, gymnasium.spaces.Discrete):
        known["action"] = Action("discrete", int(space.n))
    elif isinstance(space, gymnasium.spaces.Box):
        known["action"] = Action("continuous", int(space.shape[0]))
    return known


def _shape(space: Any) -> tuple[int, ...] | None:
    """What the networks see of an observation: a number of states is one of so many."""
    import gymnasium

    if isinstance(space, gymnasium.spaces.Discrete):
        return (int(space.n),)
    return tuple(space.shape) if isinstance(space, gymnasium.spaces.Box) else None
