"""Policies that other libraries trained, as runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from trimtab.config.keywords import Fields
from trimtab.envs.own_environments import Constructor
from trimtab.libraries.common.adoption import adopt_policy
from trimtab.operations.source import Place
from trimtab.training.run import Run


def adopt(
    policy: Any,
    environment: str,
    run_dir: Place | None = None,
    *,
    normalizer: Any = None,
    hyperparameters: Mapping[str, Any] | None = None,
    env: Constructor | None = None,
    quiet: bool = False,
    **fields: Unpack[Fields],
) -> Run:
    """Make a run, at step 0, of a policy with dense networks that SB3, CleanRL, rsl_rl or skrl trained.

    It can be evaluated, probed, watched, exported and, by `resume`, trained further. `environment` is an id.
    `policy` is its model, module or state_dict, or a file of one (SB3's .zip, PyTorch's .pt or .pth with
    `trimtab[torch]`, .safetensors, .npz). `normalizer` is what it sees observations through: VecNormalize, or obs_mean,
    obs_var and reward_var in a mapping or .npz. `hyperparameters` are those of its training by their names there, over
    what the model says of them itself; `fields` are fields here, over both. `env` makes the environment. What was read,
    and what is not the same here, is printed on standard error unless `quiet`.
    """
    return adopt_policy(
        policy,
        environment,
        run_dir,
        normalizer=normalizer,
        hyperparameters=hyperparameters,
        env=env,
        fields=fields,
        say=(lambda text: None) if quiet else partial(print, file=sys.stderr),
    )
