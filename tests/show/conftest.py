"""One tiny real run, probed at two checkpoints and two λ, for every test here."""

import polars as pl
import pytest

from trimtab.config import Config


@pytest.fixture(scope="session")
def config():
    return Config(
        env_id="Pendulum-v1",
        total_timesteps=256,
        num_envs=4,
        num_steps=16,
        gamma=0.8,
        hidden_sizes=(8,),
        update_epochs=2,
    )


@pytest.fixture(scope="session")
def probed(config, tmp_path_factory):
    """Anatomies at two steps × two λ."""
    from trimtab.gradient.probing import probe
    from trimtab.training.loop import train

    run = train(config, run_dir=tmp_path_factory.mktemp("runs") / "run", checkpoints=2)
    steps = [c.step for c in run.checkpoints][-2:]
    return probe(run, at=steps, gae_lambda=[0.5, 1.0], replicates=16, save=False)


@pytest.fixture(scope="session")
def splits(probed) -> pl.DataFrame:
    """Two of them as if they were two splits."""
    from trimtab.gradient.measurements import frame_of

    first, second = frame_of([probed[2]]), frame_of([probed[3]])
    second = second.with_columns(split=pl.lit("8x8"), num_envs=pl.lit(8), num_steps=pl.lit(8), gae_lambda=pl.lit(0.5))
    return pl.concat([first, second.cast(first.schema)])
