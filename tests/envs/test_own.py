"""Environments users bring: by name, as constructors, as vectors, as functions; and how misbehaviour is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tiny
from gymnasium.spaces import Box

import trimtab
from trimtab import envs
from trimtab.config import Config, ConfigError
from trimtab.core import trust
from trimtab.core.errors import RunError
from trimtab.envs.base import EnvError

HERE = Path(__file__).parent
IDS = [
    "corridors:trimtab-test/Corridor-v0",
    "corridors:trimtab-test/Corridors-v0",
    "corridors:Corridor",
    "corridors:limited",
    "corridors:Corridors",
    "corridors:SameStep",
    "corridors:Disabled",
    "corridors:Reused",
    "corridors:Whole",
]


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr(trust, "_trusted", {"corridors", "broken", "leaving", "nomodule", "crooked"})


@pytest.mark.parametrize("env_id", IDS)
def test_every_way_of_bringing_one_gives_the_same_walk(env_id):
    """To the right for seven steps: the end is reached at the fifth, with its true last observation."""
    env = envs.make(env_id, num_envs=2)
    np.testing.assert_array_equal(env.reset(0)[:, 0], [0, 0])
    steps = [env.step(np.ones(2, np.int32)) for _ in range(7)]
    rows = [step for step in steps if step.valid.all()]
    assert len(rows) == (6 if env_id.endswith(("Corridors", "Corridors-v0", "Reused")) else 7)
    np.testing.assert_allclose([step.next_obs[0, 0] for step in rows[:5]], [0.2, 0.4, 0.6, 0.8, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(
        [step.terminated[0] for step in rows], [*[False] * 4, True, *[False] * (len(rows) - 5)]
    )
    np.testing.assert_array_equal([step.reward[0] for step in rows[:5]], [0, 0, 0, 0, 1])
    after = next(step for step in steps[4:] if step.obs[0, 0] == 0)
    assert after.obs[1, 0] == 0 and rows[5].next_obs[0, 0] == np.float32(0.2)
    env.close()


def test_limits_of_registrations_and_wrappers_are_known():
    assert envs.make("corridors:trimtab-test/Corridor-v0", num_envs=1).spec.time_limit == 50
    assert envs.make("corridors:trimtab-test/Corridors-v0", num_envs=1).spec.time_limit == 50
    assert envs.make("corridors:Corridor", num_envs=1, time_limit=7).spec.time_limit == 7


@pytest.mark.parametrize(
    "env_id, message",
    [
        ("corridors:Corrido", "corridors registers no 'Corrido'.*nearest: corridors:Corridor"),
        ("nomodule:Corridor", "no module 'nomodule' in the current directory"),
        ("broken:Thing", "importing broken raised ValueError: at import"),
        ("leaving:Thing", "importing leaving raised SystemExit: 4"),
        ("__main__:make", "only in the Python program that made it"),
        ("./corridors.py:Corridor", "a module, not a file: from the directory of corridors.py give corridors:Corridor"),
    ],
)
def test_names_that_lead_nowhere_say_what_would(env_id, message, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("raise ValueError('at import')")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(4)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvError, match=message):
        envs.make(env_id, num_envs=1)


TOLD = {
    "reset": r"raised RuntimeError: closed today in reset \(step 0 of its episode 1\)",
    "step": r"raised ZeroDivisionError: division by zero in step \(step 3 of its episode 1\)",
    "reward": r"step of .* returned the reward nan \(step 3",
    "observation": r"step of .* returned an observation with nan \(step 3",
    "exit": r"raised SystemExit: 3 in step \(step 3 of its episode 1\)",
    "huge": r"returned the reward 1e\+300 \(step 3",
    "shape": r"shape \(3,\), declared is \(2,\) \(step 3",
    "dtype": r"type <U1, declared is float32 \(step 3",
    "ragged": r"whose parts differ in shape, declared is \(2,\) \(step 3",
    "beyond": r"returned an observation with 1e\+300 \(step 3",
    "rewards": r"returned the reward \[\[1.0\], \[2.0, 3.0\]\], which is not one number \(step 3",
}


@pytest.mark.parametrize("fault", TOLD)
def test_misbehaviour_ends_in_one_line_with_the_environment_and_the_step(fault):
    env = envs.make("corridors:Corridor", num_envs=2, env_kwargs={"fault": fault})
    with pytest.raises(EnvError, match=TOLD[fault]) as caught:
        env.reset(0)
        for _ in range(3):
            env.step(np.zeros(2, np.int32))
    assert "corridors:Corridor" in str(caught.value) and "\n" not in str(caught.value)


def typed(place, words, *more):
    """What a shell in a directory answers to `trimtab ...` at a tiny size, as the installed script starts."""
    program = "import sys; sys.path.pop(0); from trimtab.cli import main; sys.exit(main())"
    sizes = "--num-envs 2 --num-steps 2 --total-timesteps 16 --hidden-sizes 4 --num-minibatches 1 --update-epochs 1"
    sizes += " --eval-every 0"
    command = [sys.executable, "-c", program, *words.split(), *more, *sizes.split(), "--run-dir", "run"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_environments_print_does_not_stand_beside_the_json(tmp_path, way):
    shutil.copy(HERE / "corridors.py", tmp_path / "brought.py")
    ended = typed(tmp_path, "train brought:Chatty --json", "--env-kwargs", f"{{vectorization: {way}}}")
    assert json.loads(ended.stdout)["env_id"] == "brought:Chatty", ended.stderr
    assert "a step" in ended.stderr and "said by a library" in ended.stderr


def test_an_environment_that_fails_in_a_process_of_its_own_is_told_in_one_line(tmp_path):
    shutil.copy(HERE / "corridors.py", tmp_path / "brought.py")
    ended = typed(tmp_path, "train brought:Corridor --quiet", "--env-kwargs", "{fault: step, vectorization: async}")
    assert ended.returncode == 2 and "raised ZeroDivisionError" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_run_whose_environment_fails_stays_readable_and_another_process_finds_the_module(tmp_path):
    """Typed in a shell where the module lies: only the current directory leads to it."""
    shutil.copy(HERE / "corridors.py", tmp_path / "brought.py")
    ended = typed(tmp_path, "train brought:Corridor", "--env-kwargs", "{fault: step}")
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "brought:Corridor raised ZeroDivisionError" in ended.stderr.splitlines()[-1]
    run = trimtab.load(tmp_path / "run")
    assert run.config.env_id == "brought:Corridor" and run.metrics.height == 1 and run.checkpoints
    first = trimtab.diagnose(run).findings[0]
    assert (first.check, first.verdict) == ("ended", "act") and "raised ZeroDivisionError" in first.seen
    assert "ended by an error" in repr(run)


def test_a_function_of_this_program_trains_and_must_be_given_again(runs, monkeypatch):
    from corridors import limited

    from trimtab.envs import own_environments

    config = tiny.config(num_steps=2, total_timesteps=8, num_minibatches=1)
    run = trimtab.train(config, "inside", env=lambda: limited())
    assert run.config.env_id.startswith("test_own:") and run.metrics.height == 2
    monkeypatch.setattr(own_environments, "_HANDED_OVER", {})  # as in another program
    with pytest.raises(EnvError, match="give it again"):
        trimtab.resume("inside")
    assert trimtab.resume("inside", env=limited).finished
    assert trimtab.train(config, "outside", env=limited).config.env_id == "corridors:limited"


def test_a_name_and_a_constructor_are_enough(runs):
    """The name is only a name: the quick start is that of the spaces, also where the name has a preset of its own."""
    import corridors

    short = {"num_envs": 2, "num_steps": 8, "total_timesteps": 16, "num_minibatches": 2}
    for name in ("Corridor", "Pendulum-v1"):
        run = trimtab.train(name, env=corridors.Corridor, **short)
        assert run.config.env_id == "corridors:Corridor" and run.config.gamma == Config().gamma
    for wrong in (corridors.Corridor(), "CartPole-v1", 3):
        with pytest.raises(ConfigError, match="must be a class or function that makes the environment"):
            trimtab.train("Corridor", env=wrong)


def test_what_was_handed_over_is_known_in_this_program(runs):
    """Evaluated, probed and trained on without being given again, though nobody could import it."""
    import corridors

    def made():
        return corridors.Corridor()

    short = {"num_envs": 2, "num_steps": 8, "total_timesteps": 32, "num_minibatches": 2, "time_limit": 20}
    run = trimtab.train("mine", env=made, **short)
    assert "<locals>" in run.config.env_id
    assert trimtab.evaluate(run, episodes=1)["eval/mean_reward"] is not None
    assert trimtab.probe(run, replicates=2, correlations=False, bias=False).num_envs == 2
    assert trimtab.train(run, seed=2).config.env_id == run.config.env_id


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda env: setattr(env, "observation_space", None), "has no observation_space"),
        (lambda env: setattr(env, "observation_space", Box(-1, 1, (0,))), "observes nothing"),
    ],
)
def test_spaces_that_are_not_there_are_told(change, message):
    import corridors

    def made():
        env = corridors.Corridor()
        change(env)
        return env

    with pytest.raises(EnvError, match=message):
        envs.make("made", num_envs=1, constructor=made)


def test_the_last_observation_of_an_episode_is_kept_while_the_environment_resets():
    """Of an environment that writes over its array and says things of changing shapes beside it."""
    env = envs.make("corridors:Cut", num_envs=2)
    env.reset(0)
    steps = [env.step(np.ones(2, np.int32)) for _ in range(4)]
    assert steps[2].truncated.all() and not steps[2].terminated.any()
    np.testing.assert_allclose(steps[2].next_obs[:, 0], 0.6, rtol=1e-6)
    np.testing.assert_array_equal(steps[2].obs[:, 0], 0.0)
    np.testing.assert_allclose([step.obs[0, 0] for step in steps[:2]], [0.2, 0.4], rtol=1e-6)


@pytest.mark.parametrize(
    "name, message",
    [
        ("Halves", r"returned terminated \[0. 0.\] \(step 1"),
        ("Silent", "does not say the final observations"),
        ("Unsaid", "declare metadata..autoreset_mode"),
    ],
)
def test_vectors_that_say_too_little_are_refused_in_words(name, message):
    env = envs.make(f"corridors:{name}", num_envs=2)
    env.reset(0)
    with pytest.raises(EnvError, match=message):
        for _ in range(6):
            env.step(np.ones(2, np.int32))


ODD = {
    "space": "what is declared of .* raised",
    "reset": r"reset of .* must return \(observations, infos\)",
    "exit": r"step of .* raised SystemExit: 3 \(step 1",
    "count": r"step of .* must return \(observations, rewards, terminated, truncated, infos\) \(step 1",
    "rewards": r"step of .* raised ValueError: .*inhomogeneous.* \(step 1",
    "huge": r"returned the rewards \[1.e\+300 1.e\+300\] \(step 1",
    "info": r"returned the info None, not a dict \(step 1",
    "fewer": r"returned observations of shape \(1, 2\), declared is \(2, 2\) \(step 1",
    "infinite": r"returned observations that are not finite \(step 1",
}


@pytest.mark.parametrize("fault", ODD)
def test_vectors_that_misbehave_are_told_in_one_line(fault):
    with pytest.raises(EnvError, match=ODD[fault]) as caught:
        env = envs.make("corridors:Odd", num_envs=2, env_kwargs={"fault": fault})
        env.reset(0)
        env.step(np.ones(2, np.int32))
    assert "corridors:Odd" in str(caught.value) and "\n" not in str(caught.value)


def test_a_vector_that_takes_no_limit_is_refused_one():
    with pytest.raises(EnvError, match=r"time_limit: 20: corridors:Odd makes its vectors itself.*nearest: not given"):
        envs.make("corridors:Odd", num_envs=2, time_limit=20)


@pytest.mark.parametrize("name, words", [("Clinging", "Refused"), ("ClingingVector", "OSError: still open")])
def test_what_closing_raises_is_said_once_and_fails_nothing(name, words, runs, capsys, monkeypatch):
    from trimtab.envs import own_environments

    monkeypatch.setattr(own_environments, "_SAID", set())
    config = tiny.config(env_id=f"corridors:{name}", num_steps=2, total_timesteps=8, num_minibatches=1)
    assert trimtab.train(config, "closed").finished
    assert capsys.readouterr().err.splitlines() == [f"trimtab: closing corridors:{name} raised {words}"]


def test_options_of_an_environment_whose_module_does_not_import_are_told(tmp_path, monkeypatch):
    (tmp_path / "absent_minded.py").write_text("raise ValueError('at import')")
    monkeypatch.syspath_prepend(str(tmp_path))
    gymnasium.register("trimtab-test/AbsentMinded-v0", "absent_minded:Thing")
    try:
        with pytest.raises(EnvError, match="cannot make trimtab-test/AbsentMinded-v0: ValueError: at import"):
            envs.make("trimtab-test/AbsentMinded-v0", num_envs=1, env_kwargs={"size": 3})
    finally:
        del gymnasium.registry["trimtab-test/AbsentMinded-v0"]


def test_vectors_that_cannot_reset_a_part_are_not_staggered(runs):
    with pytest.raises(ConfigError, match="cannot reset some of its environments"):
        trimtab.train(tiny.config(env_id="corridors:Corridors", stagger_resets=True), "staggered")
    assert not Path("staggered").exists()


def test_a_process_that_dies_is_told_and_the_others_end():
    env = envs.make("corridors:Dying", num_envs=2, env_kwargs={"vectorization": "async"})
    env.reset(0)
    with pytest.raises(EnvError, match="a process of corridors:Dying has ended"):
        env.step(np.ones(2, np.int32))
    env.close()
    assert not any(process.is_alive() for process in env._vector.processes)


def test_environments_are_closed_whatever_goes_wrong(runs):
    import corridors

    config = tiny.config(env_id="corridors:Cut", num_steps=2, total_timesteps=8, num_minibatches=1)
    before = corridors.Cut.still_open
    for changes, error in (({"env_kwargs": {"fault": "reset"}}, EnvError), ({"network": "nature"}, ConfigError)):
        with pytest.raises(error):
            trimtab.train(config.replace(**changes), error.__name__)
        assert corridors.Cut.still_open == before
    run = trimtab.train(config, "whole")
    assert corridors.Cut.still_open == before
    for file in run.files.checkpoints()[-1].path.glob("*"):
        file.write_bytes(file.read_bytes()[:-1] if file.suffix != ".json" else file.read_bytes())
    with pytest.raises(RunError):
        trimtab.probe(run, replicates=2)
    assert corridors.Cut.still_open == before


def test_constructors_that_share_a_name_are_told_apart(runs):
    """Three partials of one class: each run is evaluated in its own."""
    import corridors

    sizes = (2, 3, 4)
    makers = [partial(corridors.Corridor, size) for size in sizes]
    short = {"num_envs": 2, "num_steps": 8, "total_timesteps": 16, "num_minibatches": 2, "time_limit": 20}
    found = [trimtab.train("level", env=maker, **short) for maker in makers]
    assert len({run.config.env_id for run in found}) == 3
    assert [envs.make(run.config.env_id, num_envs=1)._vector.envs[0].unwrapped.length for run in found] == list(sizes)
    assert trimtab.train("level", env=makers[1], **short).config.env_id == found[1].config.env_id


def test_what_was_given_at_a_resume_is_known_from_then_on(runs, monkeypatch):
    import corridors

    from trimtab.envs import own_environments

    config = tiny.config(num_steps=2, total_timesteps=16, num_minibatches=1)
    run = trimtab.train(config, "inside", env=lambda: corridors.limited())
    monkeypatch.setattr(own_environments, "_HANDED_OVER", {})  # as in another program
    trimtab.resume("inside", env=corridors.limited)
    assert trimtab.evaluate(run, episodes=1)["eval/mean_reward"] is not None


@pytest.mark.parametrize("value", [np.float32(2), len, {1: 2}])
def test_options_that_no_file_can_hold_are_refused_before_anything_is_written(value, runs):
    with pytest.raises(ConfigError, match="cannot be written to a file"):
        trimtab.train("CartPole-v1", env_kwargs={"scale": value}, run_dir="refused")
    assert not Path("refused").exists()
    assert Config(env_kwargs={"sizes": (1, (2, 3))}).env_kwargs == {"sizes": [1, [2, 3]]}


class Small(gymnasium.Env):
    """Images too small for a network of images, and something to do nothing with."""

    observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, True, {}


def test_a_quick_start_normalizes_no_bytes(runs):
    config = trimtab.configure("Small", env=Small)
    assert not config.norm_obs and config.learning_rate == trimtab.configure("ppo/discrete").learning_rate
    assert trimtab.configure("ppo/discrete").norm_obs
    sizes = {"num_envs": 2, "num_steps": 4, "total_timesteps": 16, "hidden_sizes": (4,), "num_minibatches": 1}
    assert trimtab.train("Small", env=Small, **sizes).metrics.height == 2


def test_an_environment_that_takes_nothing_is_refused():
    class Idle(Small):
        action_space = gymnasium.spaces.Box(-1, 1, (0,))

    with pytest.raises(EnvError, match=r"takes nothing: its actions have shape \(0,\)"):
        trimtab.configure("Idle", env=Idle)


@pytest.mark.parametrize("value", [3, "hello", [1, 2]])
def test_options_of_ones_own_environment_are_a_mapping(value):
    with pytest.raises(ConfigError, match=r"env_kwargs=.*must be a mapping"):
        trimtab.configure("corridors:Corridor", env_kwargs=value)


def test_constructors_without_a_name_are_known_by_what_they_are_made_of():
    """So that a run of one program is not played in what another program happens to call <lambda> too."""
    import corridors

    from trimtab.envs.own_environments import name_of

    def within(length):
        return lambda: corridors.Corridor(length)

    alike = [name_of(make) for make in (within(3), within(3), within(4), lambda: corridors.Corridor(3))]
    assert alike[0] == alike[1] and len(set(alike)) == 3 and "<lambda>#" in alike[3]
    names = [name_of(partial(corridors.Corridor, length=n)) for n in (3, 3, 4)]
    assert names[0] == names[1] != names[2]
    program = "import corridors; from trimtab.envs import own_environments as own; "
    program += "print(own.name_of(lambda: corridors.Corridor({})))"
    told = [
        subprocess.run([sys.executable, "-c", program.format(n)], cwd=HERE, capture_output=True, text=True).stdout
        for n in (3, 3, 4)
    ]
    assert told[0] == told[1] != told[2] and told[0].startswith("__main__:<lambda>#")


def test_a_run_that_is_loaded_with_its_environment_can_be_evaluated(runs, monkeypatch):
    import corridors

    from trimtab.envs import own_environments

    config = tiny.config(num_steps=2, total_timesteps=16, num_minibatches=1)
    trimtab.train(config, "inside", env=lambda: corridors.limited())
    monkeypatch.setattr(own_environments, "_HANDED_OVER", {})  # as in another program
    with pytest.raises(EnvError, match=r"trimtab.load\(run, env=...\)"):
        trimtab.evaluate("inside", episodes=1)
    run = trimtab.load("inside", env=corridors.limited)
    assert trimtab.evaluate(run, episodes=1)["eval/mean_reward"] is not None


def test_actions_lie_within_bounds_finer_than_those_of_the_policy():
    env = envs.make("corridors:Finely", num_envs=2)
    env.reset(0)
    assert (env.step(np.array([[0.1], [-0.1]], np.float32)).reward == 1).all()


def test_half_precision_is_checked_in_full(recwarn):
    env = envs.make("corridors:Finely", num_envs=1, env_kwargs={"fault": "infinite"})
    with pytest.raises(EnvError, match="returned an observation with inf"):
        env.reset(0)
    envs.make("corridors:Finely", num_envs=1).reset(0)
    assert not [w for w in recwarn if "overflow" in str(w.message)]


def test_whatever_trains_can_be_watched(runs):
    """Rewards in arrays, no infos, and a function that takes no render_mode."""
    config = tiny.config(env_id="corridors:drawn", num_steps=2, total_timesteps=8, num_minibatches=1)
    assert trimtab.watch(trimtab.train(config, "drawn"), "play.gif", steps=5)["returns"] == [5.0]
    vectors = trimtab.train(config.replace(env_id="corridors:SameStep"), "vectors")
    with pytest.raises(RunError, match="it is a vector environment"):
        trimtab.watch(vectors, "play.gif")


def test_a_limit_that_the_environment_brings_is_the_limit():
    assert envs.make("corridors:limited", num_envs=1).spec.time_limit == 40
    assert envs.make("corridors:limited", num_envs=1, time_limit=7).spec.time_limit == 7
    with pytest.raises(EnvError, match=r"time_limit: 50: corridors:limited ends its episodes after 40 .*nearest: 40"):
        envs.make("corridors:limited", num_envs=1, time_limit=50)


def test_wrappers_whose_statistics_would_be_lost_are_named_once(capsys, monkeypatch):
    from trimtab.envs import own_environments

    monkeypatch.setattr(own_environments, "_SAID", set())
    for _ in range(2):
        envs.make("corridors:normalized", num_envs=1).close()
    (line,) = capsys.readouterr().err.splitlines()
    assert "NormalizeObservation gathers statistics" in line and line.endswith(
        "--norm-obs true does the same and keeps them"
    )


def test_a_module_without_an_environment_is_told_how_to_name_one(monkeypatch):
    monkeypatch.chdir(HERE)
    for name in ("corridors", "corridors.py", "./corridors.py"):
        with pytest.raises(EnvError, match="name the environment in it too, for example corridors:MyEnv"):
            envs.choose(name, "auto")
