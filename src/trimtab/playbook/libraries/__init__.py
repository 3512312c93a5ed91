"""Other libraries, one file each: what their hyperparameters are called here and what differs. Pure."""

from trimtab.playbook.libraries import brax, cleanrl, ppo_ewma, rllib, rsl_rl, sb3
from trimtab.playbook.libraries.rules import Library

LIBRARIES: dict[str, Library] = {
    "sb3": sb3.LIBRARY,
    "cleanrl": cleanrl.LIBRARY,
    "rllib": rllib.LIBRARY,
    "rsl_rl": rsl_rl.LIBRARY,
    "brax": brax.LIBRARY,
    "ppo-ewma": ppo_ewma.LIBRARY,
}
