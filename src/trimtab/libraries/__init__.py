"""Other libraries, one file each: what their hyperparameters are called here and what differs. Pure."""

from trimtab.libraries import brax, cleanrl, ppo_ewma, rl_games, rllib, rsl_rl, sb3, skrl
from trimtab.libraries.translation_rules import Library

LIBRARIES: dict[str, Library] = {
    "sb3": sb3.LIBRARY,
    "cleanrl": cleanrl.LIBRARY,
    "rllib": rllib.LIBRARY,
    "rsl_rl": rsl_rl.LIBRARY,
    "skrl": skrl.LIBRARY,
    "rl_games": rl_games.LIBRARY,
    "brax": brax.LIBRARY,
    "ppo-ewma": ppo_ewma.LIBRARY,
}
