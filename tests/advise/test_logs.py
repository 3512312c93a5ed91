"""Logs of other libraries: laid out as the libraries write them, read, and held against the doctor's rules."""

import json
import zipfile

import numpy as np
import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto.summary_pb2 import Summary

import trimtab
from trimtab.advise.evidence import Action
from trimtab.cli import main
from trimtab.core import reading
from trimtab.core.errors import RunError
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.foreign_log import is_log, read_log
from trimtab.libraries.common.log_doctor import described_log, diagnose_log
from trimtab.libraries.common.tensorboard_events import read_events

ITERATIONS, BATCH = 40, 512
SB3 = "rollout/ep_len_mean,time/iterations,time/total_timesteps,rollout/ep_rew_mean,time/fps,train/value_loss,"
SB3 += "train/n_updates,train/entropy_loss,train/approx_kl,train/clip_fraction,train/explained_variance,"
SB3 += "train/learning_rate,train/policy_gradient_loss,train/clip_range\n"


def sb3(folder, clip=0.05, loss="1.0", gain=1.0):
    """progress.csv: the first iteration records no update. Returns rise by `gain` an iteration."""
    lines = [f"20.0,1,{BATCH},20.0,900,,,,,,,,,\n"]
    for k in range(2, ITERATIONS + 1):
        lines.append(
            f"20,{k},{k * BATCH},{20 + gain * k},900,{loss},{6 * (k - 1)},-0.5,0.01,{clip},0.8,0.003,-0.01,0.2\n"
        )
    folder.mkdir(exist_ok=True)
    (folder / "progress.csv").write_text(SB3 + "".join(lines))
    return folder


def model(folder, **changes):
    """What `model.save` puts into the archive as JSON; the pickled parts would not load."""
    space = {":type:": "Discrete", ":serialized:": "no pickle", "n": "2"}
    data = {"n_envs": 8, "n_steps": 64, "batch_size": 128, "n_epochs": 6, "gamma": 0.98, "gae_lambda": 0.9}
    data |= {"clip_range": {":serialized:": "no pickle"}, "action_space": space, "_total_timesteps": 20480} | changes
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data))


def monitors(folder, lengths=((10, 30), (20, 20))):
    for k, own in enumerate(lengths):
        rows = "".join(f"{length}.0,{length},1.5\n" for length in own)
        (folder / f"{k}.monitor.csv").write_text('#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n' + rows)


def test_a_table_of_progress_alone_says_what_shows_in_it(tmp_path):
    log = read_log(sb3(tmp_path / "run"))
    assert log.library.title == "Stable-Baselines3" and len(log.rows) == ITERATIONS - 1
    assert log.rows[0].step == 2 * BATCH and log.rows[0].numbers["train/clip_fraction"] == 0.05
    config = log.config
    assert (config.batch, config.update_epochs, config.learning_rate, config.clip_coef) == (BATCH, 6, 0.003, 0.2)
    assert not log.knows_sizes
    sizes = next(f for f in diagnose_log(log).findings if f.check == "sizes")
    assert sizes.verdict == "unknown" and "n_envs=… n_steps=… batch_size=…" in sizes.advice


def test_a_saved_model_and_monitors_say_the_rest(tmp_path):
    folder = sb3(tmp_path / "run")
    model(folder)
    monitors(folder)
    log = read_log(folder)
    config = log.config
    assert (config.num_envs, config.num_steps, config.minibatch, config.gamma) == (8, 64, 128, 0.98)
    assert config.env_id == "CartPole-v1" and log.details.action == Action("discrete", 2) and log.knows_sizes
    assert log.details.steps.tolist() == [20, 40, 80, 80] and log.details.returns.tolist() == [10.0, 20.0, 20.0, 30.0]


def test_what_is_told_is_laid_over_what_the_log_says(tmp_path):
    log = read_log(sb3(tmp_path / "run"), {"n_envs": 4, "n_steps": 128, "batch_size": 100, "env_id": "Mine-v0"})
    assert (log.config.num_envs, log.config.minibatch, log.config.env_id) == (4, 128, "Mine-v0")
    assert log.notes == ("512 samples do not divide into minibatches of 100: read as minibatches of 128",)
    assert "read as minibatches of 128" in next(f for f in diagnose_log(log).findings if f.check == "read as").seen
    with pytest.raises(trimtab.ConfigError, match="nearest: n_envs"):
        read_log(tmp_path / "run", {"n_env": 4})


def test_faults_are_found_and_fields_have_their_names_there(tmp_path):
    told = {"n_envs": 8, "n_steps": 64, "batch_size": 512}
    rising = {f.check: f for f in trimtab.diagnose(sb3(tmp_path / "rising", clip=0.4), told).findings}
    assert rising["clipping"].verdict == "watch" and rising["learning"].verdict == "fine"  # as RL Zoo's Pendulum
    assert rising["learning"].lo > 0
    diagnosis = trimtab.diagnose(sb3(tmp_path / "run", clip=0.4, gain=0.0), told)
    by_check = {f.check: f for f in diagnosis.findings}
    command = by_check["clipping"].command
    assert command.startswith("trimtab translate sb3 ") and "learning_rate=0.001" in command and "here.yaml" in command
    assert by_check["clipping"].verdict == "act" and by_check["clipping"].change == {"learning_rate": 0.001}
    assert by_check["gradient steps"].verdict == "fine" and diagnosis.command is None
    assert by_check["learning"].verdict == "act" and "mean return changed by +0" in by_check["learning"].seen
    assert by_check["not recorded"].seen == "Stable-Baselines3 logs nothing for gradient, advantages"
    assert "lasting" not in by_check and "importance" not in by_check
    assert diagnosis.sentence.startswith("To act on: learning, clipping")
    few = trimtab.diagnose(sb3(tmp_path / "few", clip=0.05, gain=0.0), told)
    assert next(f.change for f in few.findings if f.check == "gradient steps") == {"batch_size": 128}


def test_a_run_that_diverged_is_told(tmp_path):
    finding = next(f for f in trimtab.diagnose(sb3(tmp_path / "run", loss="nan")).findings if f.check == "finite")
    assert finding.verdict == "act" and "train/value_loss not finite" in finding.seen


def test_falling_step_sizes_are_linear(tmp_path):
    folder = sb3(tmp_path / "run")
    text = (folder / "progress.csv").read_text()
    (folder / "progress.csv").write_text(text[:-1].rpartition("0.003")[0] + "0.0001,-0.01,0.2\n")
    assert read_log(folder).config.anneal_lr == "linear"


HYPERPARAMETERS = {"num_envs": 4, "num_steps": 128, "num_minibatches": 4, "update_epochs": 4, "learning_rate": 2.5e-4}
HYPERPARAMETERS |= {"env_id": "CartPole-v1", "anneal_lr": True, "target_kl": None, "track": False, "vf_coef": 0.5}


def cleanrl(folder):
    with SummaryWriter(str(folder)) as writer:
        rows = "\n".join(f"|{name}|{value}|" for name, value in HYPERPARAMETERS.items())
        writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")
        for k in range(1, ITERATIONS + 1):
            for tag, value in (("losses/clipfrac", 0.05), ("losses/entropy", 0.6), ("charts/learning_rate", 2e-4)):
                writer.add_scalar(tag, value, k * BATCH)
            writer.add_scalar("charts/episodic_return", 10.0 * k, k * BATCH - 100)
            writer.add_scalar("charts/episodic_length", 10 * k, k * BATCH - 100)
    return folder


def test_cleanrls_events_have_episodes_and_hyperparameters(tmp_path):
    log = read_log(cleanrl(tmp_path / "run"))
    assert log.library.title == "CleanRL" and len(log.rows) == ITERATIONS
    assert log.rows[3].numbers["train/entropy_loss"] == pytest.approx(-0.6)  # plus there, minus here
    assert (log.config.num_envs, log.config.num_steps, log.config.minibatch) == (4, 128, 128)
    assert (log.config.vf_coef, log.config.anneal_lr) == (0.25, "linear")
    np.testing.assert_allclose(log.details.returns, 10.0 * np.arange(1, ITERATIONS + 1))
    findings = {f.check: f.verdict for f in diagnose_log(log).findings}
    assert findings["learning"] == "fine" and findings["gradient steps"] == "fine"


def rsl_rl(folder, rate=1e-5, gain=0.0):
    with SummaryWriter(str(folder)) as writer:
        for k in range(ITERATIONS):
            fps, seconds = 1000, 1.536  # 64 environments x 24 steps
            scalars = {"Loss/surrogate": -0.01, "Loss/entropy": 2.0, "Loss/learning_rate": rate, "Perf/total_fps": fps}
            scalars |= {"Perf/collection_time": seconds / 3, "Perf/learning_time": 2 * seconds / 3}
            for tag, value in (scalars | {"Train/mean_reward": gain * k, "Train/mean_episode_length": 100.0}).items():
                writer.add_scalar(tag, value, k)
    (folder / "params").mkdir()
    (folder / "params" / "agent.yaml").write_text(
        "num_steps_per_env: 24\nexperiment_name: point\ndevice: !!python/object/apply:os.system [boom]\n"
        "algorithm: {num_learning_epochs: 5, num_mini_batches: 4, schedule: adaptive, desired_kl: 0.01}\n"
    )
    return folder


def test_rsl_rl_counts_iterations_and_gives_its_sizes_away(tmp_path):
    log = read_log(rsl_rl(tmp_path / "run"))
    assert (log.config.num_envs, log.config.num_steps, log.config.minibatches) == (64, 24, 4)
    assert log.rows[-1].step == ITERATIONS * 64 * 24 == log.config.steps
    assert log.config.env_id == "point" and log.rows[0].numbers["train/entropy_loss"] == -2.0


@pytest.mark.parametrize(("rate", "verdict"), [(1e-5, "act"), (3e-4, "fine"), (1e-2, "watch")])
def test_a_step_size_at_its_bound_stands_in_for_the_clip_fraction(tmp_path, rate, verdict):
    findings = {f.check: f for f in diagnose_log(read_log(rsl_rl(tmp_path / "run", rate))).findings}
    assert findings["step size"].verdict == verdict
    names = findings["step size"].change.keys()
    assert names == ({"num_learning_epochs"} if verdict != "fine" else set())


AGENTS = {  # as Isaac Lab writes them
    "rl_games": "params:\n  seed: 5\n  network: {separate: false, mlp: {units: [32, 16], activation: elu}}\n"
    "  config: {name: ant, env_config: {name: Ant-v4}, num_actors: 64, horizon_length: 16, minibatch_size: 256,\n"
    "    mini_epochs: 5, learning_rate: 3e-4, lr_schedule: adaptive, kl_threshold: 0.008, grad_norm: 1.0,\n"
    "    truncate_grads: false, critic_coef: 4, e_clip: 0.2, clip_value: true}\n",
    "skrl": "seed: 5\nagent:\n  rollouts: 16\n  learning_epochs: 5\n  mini_batches: 4\n  discount_factor: 0.98\n"
    "  lambda: 0.9\n  learning_rate: 1.0e-4\n  learning_rate_scheduler: KLAdaptiveLR\n"
    "  learning_rate_scheduler_kwargs: {kl_threshold: 0.02}\n  value_loss_scale: 2.0\n  value_clip: 0.3\n"
    "  state_preprocessor: RunningStandardScaler\n  experiment: {directory: ant}\n",
}


def of_isaac(folder, library, scalars, steps):
    events = folder / ("summaries" if library == "rl_games" else "")
    with SummaryWriter(str(events)) as writer:
        for k, step in enumerate(steps):
            for tag, values in scalars.items():
                value = Summary.Value(
                    tag=tag, simple_value=values[k % len(values)]
                )  # add_scalar would change skrl's tags
                writer.file_writer.add_summary(Summary(value=[value]), step)
    (folder / "params").mkdir(parents=True)
    (folder / "params" / "agent.yaml").write_text(AGENTS[library])
    return folder


def rl_games(folder, rates=(1e-6, 1.5e-6)):
    scalars = {"losses/a_loss": [-0.01], "losses/c_loss": [0.5], "losses/entropy": [3.0], "info/last_lr": rates}
    scalars |= {"info/kl": [0.01], "info/e_clip": [0.2], "rewards/step": [5.0], "episode_lengths/step": [100.0]}
    return of_isaac(folder, "rl_games", scalars, range(0, 1024 * ITERATIONS, 1024))  # counted after it is recorded


def skrl(folder, policy_loss=-0.01):
    scalars = {"Loss / Policy loss": [policy_loss], "Loss / Value loss": [0.5], "Policy / Standard deviation": [0.8]}
    scalars |= {"Learning / Learning rate": [1e-4, 1.5e-4], "Reward / Total reward (mean)": [5.0]}
    return of_isaac(folder, "skrl", scalars, range(16, 16 * (ITERATIONS + 1), 16))


def test_rl_games_counts_steps_and_says_its_kl(tmp_path):
    log = read_log(rl_games(tmp_path / "run"))
    config = log.config
    assert log.library.title == "rl_games" and config.env_id == "Ant-v4" and len(log.rows) == ITERATIONS
    assert (config.num_envs, config.num_steps, config.minibatch, config.update_epochs) == (64, 16, 256, 5)
    assert (config.vf_coef, config.max_grad_norm, config.clip_vloss, config.desired_kl) == (2.0, None, 0.2, 0.008)
    assert (config.hidden_sizes, config.activation, config.arch) == ((32, 16), "elu", "shared")
    assert log.rows[-1].step == ITERATIONS * 1024 and log.rows[0].numbers["train/entropy_loss"] == -3.0
    assert log.rows[0].numbers["train/approx_kl"] == pytest.approx(0.01)
    findings = {f.check: f for f in diagnose_log(log).findings}
    assert findings["step size"].verdict == "act" and "1e-06" in findings["step size"].seen
    assert findings["step size"].change.keys() == {"mini_epochs"}
    assert read_log(tmp_path / "run" / "summaries").config == config


def test_rl_games_alone_gives_away_its_batch_and_that_the_step_size_adapts(tmp_path):
    folder = rl_games(tmp_path / "run", rates=(1e-4, 1.5e-4))
    (folder / "params" / "agent.yaml").unlink()
    log = read_log(folder)
    assert log.config.batch == 1024 and not log.knows_sizes and log.config.anneal_lr == "adaptive"
    falling = rl_games(tmp_path / "falling", rates=np.linspace(1e-3, 1e-5, ITERATIONS))
    (falling / "params" / "agent.yaml").unlink()
    assert read_log(falling).config.anneal_lr == "linear"


def test_skrl_counts_calls_of_all_environments(tmp_path):
    log = read_log(skrl(tmp_path / "run"), {"num_envs": 32})
    config = log.config
    assert log.library.title == "skrl" and log.rows[-1].step == 16 * ITERATIONS * 32
    assert (config.num_envs, config.num_steps, config.minibatches, config.update_epochs) == (32, 16, 4, 5)
    assert (config.gamma, config.gae_lambda, config.vf_coef, config.clip_vloss) == (0.98, 0.9, 2.0, 0.3)
    assert (config.anneal_lr, config.desired_kl, config.norm_obs, config.norm_adv) == ("adaptive", 0.02, True, "batch")
    findings = {f.check: f for f in diagnose_log(log).findings}
    assert findings["step size"].verdict == "fine" and "clipping" in findings["not recorded"].seen
    alone = read_log(tmp_path / "run")
    assert alone.rows[-1].step == 16 * ITERATIONS and "one environment" in alone.notes[0]
    assert any("num_envs" in f.seen for f in diagnose_log(alone).findings if f.check == "sizes")


def test_skrl_with_a_learning_rate_that_its_log_does_not_contain(tmp_path):
    """-1,307 to -1,299 with 30 times the learning rate: no clip fraction, no KL, but a policy loss above 0."""
    folder = skrl(tmp_path / "run", policy_loss=0.02)
    (folder / "params" / "agent.yaml").unlink()
    for file in folder.glob("*tfevents*"):
        file.unlink()
    with SummaryWriter(str(folder)) as writer:
        for k, mean in enumerate(-1307 + 8 * np.sin(np.arange(25.0))):
            for tag, value in (("Loss / Policy loss", 0.02), ("Reward / Total reward (mean)", mean)):
                writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), 1024 * k)
    found = {f.check: f for f in diagnose_log(read_log(folder)).findings}
    assert found["learning"].verdict == found["policy loss"].verdict == "act"
    assert found["learning"].moves == found["policy loss"].moves == "lower learning_rate"
    assert "updates make the policy loss worse" in found["learning"].advice


def test_events_that_are_still_being_written_are_read_to_their_last_whole_record(tmp_path):
    (file,) = cleanrl(tmp_path / "run").glob("*tfevents*")
    whole = read_events([file]).scalars["losses/clipfrac"]
    assert len(whole[0]) == ITERATIONS and whole[0][0] == BATCH
    file.write_bytes(file.read_bytes()[:-7])
    cut = read_events([file])
    assert len(cut.scalars["losses/clipfrac"][0]) == ITERATIONS
    assert len(cut.scalars["charts/episodic_length"][0]) == ITERATIONS - 1
    assert "|num_envs|4|" in cut.texts["hyperparameters"]


def test_names_there_are_those_that_only_rename():
    names = {field: LIBRARIES["sb3"].option_for(field) for field in ("num_envs", "update_epochs", "clip_vloss")}
    assert names == {"num_envs": "n_envs", "update_epochs": "n_epochs", "clip_vloss": "clip_range_vf"}
    half = LIBRARIES["cleanrl"].options["vf_coef"]
    assert half.there(0.25) == 0.5 and LIBRARIES["cleanrl"].options["anneal_lr"].there("linear") is True


def test_what_is_no_log_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "progress.csv").write_text("time/total_timesteps,loss\n1,2\n")
    assert is_log(tmp_path / "other") and not is_log(tmp_path)
    with pytest.raises(
        RunError,
        match=r"no log of CleanRL, rl_games, rsl_rl, Stable-Baselines3, skrl: it records loss, time/total_time",
    ):
        read_log(tmp_path / "other")
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", str(tmp_path / "other")])
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "other" / "progress.csv").write_text(SB3)
    with pytest.raises(RunError, match="it records nothing"):
        read_log(tmp_path / "other")


def test_a_damaged_file_beside_a_log_is_one_line(tmp_path):
    (sb3(tmp_path / "run") / "0.monitor.csv").write_text("#{not json\nr,l,t\n")
    with reading.collect_problems() as problems:
        assert read_log(tmp_path / "run").details.env_id == "run"
    assert len(problems) == 1 and "0.monitor.csv: its first line is damaged" in problems[0]


def test_other_commands_say_who_reads_a_log(tmp_path):
    with pytest.raises(RunError, match="`trimtab doctor` reads some of them"):
        trimtab.load(sb3(tmp_path / "run"))


def test_the_command_shows_a_log_and_writes_a_page(tmp_path, capsys):
    folder = sb3(tmp_path / "run")
    assert main(["doctor", str(folder), "n_envs=8", "n_steps=64", "batch_size=128", "--json", "--page"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(folder / "doctor.html") and {f["check"] for f in told["findings"]} >= {
        "rollout",
        "clipping",
    }
    page = (folder / "doctor.html").read_text()
    assert "Stable-Baselines3, run" in page and "trimtab translate sb3" in page
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", str(folder), "n_envs"])
    log = read_log(folder, {"n_envs": 8, "n_steps": 64})
    command = described_log(log, diagnose_log(log)).next[0].split(" > ")[0].split()
    assert main(command[1:]) == 0 and "num_envs: 8" in capsys.readouterr().out
