"""How returns went: gains, falls and trends of single episodes and of running means."""

import numpy as np
import pytest

from trimtab.advise.evidence import Evidence
from trimtab.advise.return_course import course_of_episodes, course_of_means
from trimtab.advise.rules import RULES
from trimtab.config import Config

DRAW = np.random.default_rng(0)


def running(returns, every=10):
    """The means over the last 100 episodes that other libraries log, and the episodes by then."""
    ends = np.arange(every, len(returns) + 1, every)
    return np.array([returns[max(0, end - 100) : end].mean() for end in ends]), ends


def noisy(levels, spread=10.0):
    return np.asarray(levels) + DRAW.normal(0, spread, len(levels))


def test_a_run_that_learned_early_and_stayed_level_improves():
    """Quarters of training would hardly differ: the start does."""
    early = noisy(np.concatenate([np.linspace(0, 100, 150), np.full(1850, 100)]))
    course = course_of_episodes(early)
    assert course.improves and course.gain.value == pytest.approx(37, abs=8) and not course.collapsed


def test_a_collapse_is_no_improvement():
    up_and_down = noisy(np.concatenate([np.linspace(0, 100, 500), np.linspace(100, 30, 500)]))
    course = course_of_episodes(up_and_down)
    assert course.gain.lo > 0 and course.collapsed and not course.improves
    dip = course_of_episodes(noisy(np.concatenate([np.linspace(0, 100, 500), np.linspace(100, 80, 500)])))
    assert dip.improves


def test_few_returns_say_nothing():
    assert course_of_episodes(np.arange(31.0)) is None
    assert course_of_means(np.arange(9.0), 10 * np.arange(9)) is None


def test_running_means_are_compared_where_they_share_no_episode():
    rising, flat = (running(noisy(levels, 50.0)) for levels in (np.linspace(0, 200, 2000), np.zeros(2000)))
    assert course_of_means(*rising).improves
    course = course_of_means(*flat)
    assert not course.improves and not course.collapsed and course.gain.lo < 0 < course.gain.hi
    assert 15 < course.spread < 150  # of single episodes, 50
    falling = course_of_means(*running(noisy(np.linspace(0, -400, 2000), 50.0)))
    assert falling.gain.hi < 0 and falling.collapsed


def test_a_short_log_that_rises_throughout_improves():
    """Five windows of a run that learns fast: too few for an interval, enough for a trend."""
    means = np.array([20.0, 60.0, 180.0, 300.0, 480.0])
    course = course_of_means(means, 100 * np.arange(5))
    assert course.gain.lo < 0 and course.improves
    assert not course_of_means(means[::-1], 100 * np.arange(5)).improves


def test_flat_logs_are_seldom_said_to_improve():
    """A trend at one-sided 5%, and neighbors that share episodes do not count twice."""
    hits = [course_of_means(*running(DRAW.normal(0, 1, 1500))).improves for _ in range(300)]
    assert np.mean(hits) < 0.09


def test_rare_successes_are_no_collapse():
    means = np.zeros(40)
    means[20] = 0.01
    assert not course_of_means(means, 100 * np.arange(40)).collapsed


def test_too_few_returns_say_how_many_are_needed():
    [learning] = [rule for rule in RULES if rule.name == "learning"]
    words = lambda **returns: learning.observe(Evidence(Config(), **returns)).seen
    assert words(returns=np.arange(31.0), steps=np.arange(31)) == "only 31 episodes finished; 32 are needed"
    assert words(mean_returns=np.arange(9.0), mean_episodes=10 * np.arange(9)).endswith("where 400 have finished")
    assert words() == "no returns are recorded"
