"""What a user might bring: a module with environments of its own, and ways of misbehaving."""

import os

import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    """Walk right to the end of a corridor of `length`; `fault` at the third step (or at reset)."""

    def __init__(self, length: int = 5, fault: str = "", render_mode: str | None = None):
        self.length, self.fault, self.render_mode = length, fault, render_mode
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def observe(self):
        return np.array([self.at / self.length, 1.0], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.fault == "reset":
            raise RuntimeError("closed\ntoday")
        self.at, self.time = 0, 0
        return self.observe(), {}

    def step(self, action):
        self.at, self.time = max(0, self.at + (1 if action else -1)), self.time + 1
        obs, reward = self.observe(), float(self.at >= self.length)
        if self.time == 3:
            if self.fault == "step":
                raise ZeroDivisionError("division by zero")
            if self.fault == "exit":
                raise SystemExit(3)
            reward = 1e300 if self.fault == "huge" else reward
            reward = np.nan if self.fault == "reward" else reward
            obs[0] = np.nan if self.fault == "observation" else obs[0]
            obs = np.zeros(3, np.float32) if self.fault == "shape" else obs
            obs = np.array(["a", "b"]) if self.fault == "dtype" else obs
            obs = [[1.0, 2.0], 3.0] if self.fault == "ragged" else obs
            obs = np.array([1e300, 1.0]) if self.fault == "beyond" else obs
            reward = [[1.0], [2.0, 3.0]] if self.fault == "rewards" else reward
        return obs, reward, self.at >= self.length, False, {}


class Chatty(Corridor):
    """Prints at every step, as environments do, and past Python, as compiled ones do."""

    def step(self, action):
        print("a step")
        os.write(1, b"a step, said by a library\n")
        return super().step(action)


class Corridors(gymnasium.vector.VectorEnv):
    """The same, as a vector with the autoreset of `mode`."""

    mode = gymnasium.vector.AutoresetMode.NEXT_STEP

    def __init__(self, num_envs: int = 1, max_episode_steps: int | None = None):
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": self.mode}
        self.single_observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)

    def observe(self):
        return np.stack([self.at / 5, np.ones(self.num_envs)], 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self.at = np.where(mask, 0, getattr(self, "at", 0))
        self.done = np.zeros(self.num_envs, bool)
        return self.observe(), {}

    def step(self, actions):
        self.at = np.maximum(0, self.at + np.where(actions, 1, -1))
        if self.mode is gymnasium.vector.AutoresetMode.NEXT_STEP:
            self.at = np.where(self.done, 0, self.at)
        self.done = self.at >= 5
        obs, info, reward, done = self.observe(), {}, self.done.astype(float), self.done.copy()
        if self.mode is gymnasium.vector.AutoresetMode.SAME_STEP:
            info = {"final_obs": list(obs)}
            self.at = np.where(done, 0, self.at)
            obs = self.observe()
        return obs, reward, done, np.zeros(self.num_envs, bool), info


class SameStep(Corridors):
    mode = gymnasium.vector.AutoresetMode.SAME_STEP


class Disabled(Corridors):
    mode = gymnasium.vector.AutoresetMode.DISABLED


def limited():
    return gymnasium.wrappers.TimeLimit(Corridor(), 40)


gymnasium.register("trimtab-test/Corridor-v0", Corridor, max_episode_steps=50)
gymnasium.register("trimtab-test/Corridors-v0", None, vector_entry_point=Corridors, max_episode_steps=50)


class Reused(Corridors):
    """Hands out the same array at every step, written over."""

    def observe(self):
        self.board = getattr(self, "board", np.zeros((self.num_envs, 2), np.float32))
        self.board[:] = super().observe()
        return self.board


class Cut(Corridor):
    """Truncates itself after three steps, hands out one array that it writes over, and says odd things beside it."""

    still_open = 0

    def __init__(self, fault: str = ""):
        super().__init__(fault=fault)
        type(self).still_open += 1
        self.board = np.zeros(2, np.float32)

    def observe(self):
        self.board[:] = super().observe()
        return self.board

    def step(self, action):
        obs, reward, terminated, _, _ = super().step(action)
        return obs, reward, terminated, self.time == 3, {"legal": np.arange(self.time), "note": None}

    def close(self):
        type(self).still_open -= 1


class Whole(SameStep):
    """Flags as whole numbers."""

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated.astype(int), truncated.astype(int), info


class Halves(Corridors):
    """Flags as fractions."""

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated.astype(float), truncated, info


class Silent(SameStep):
    """Does not say what an episode ended with."""

    def step(self, actions):
        return *super().step(actions)[:4], {}


class Unsaid(SameStep):
    """Does not say how it resets."""

    def __init__(self, num_envs: int = 1):
        super().__init__(num_envs)
        self.metadata = {}


class Odd(SameStep):
    """A vector that misbehaves in its own way when it is made, reset or stepped."""

    def __init__(self, num_envs: int = 1, fault: str = ""):
        super().__init__(num_envs)
        self.fault = fault
        if fault == "space":
            self.single_action_space = None

    def reset(self, *, seed=None, options=None):
        returned = super().reset(seed=seed, options=options)
        return returned[0] if self.fault == "reset" else returned

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        if self.fault == "exit":
            raise SystemExit(3)
        if self.fault == "count":
            return obs, reward, terminated, info
        reward = [[1.0], [2.0, 3.0]] if self.fault == "rewards" else reward
        reward = reward + 1e300 if self.fault == "huge" else reward
        info = None if self.fault == "info" else info
        obs = obs[:1] if self.fault == "fewer" else obs
        obs = obs + np.inf if self.fault == "infinite" else obs
        return obs, reward, terminated, truncated, info


class Clinging(Corridor):
    """Does its work and raises when it is closed, in words that raise too."""

    class Refused(Exception):
        def __str__(self):
            raise ValueError("no words")

    def close(self):
        raise self.Refused


class ClingingVector(SameStep):
    def close(self, **options):
        raise OSError("still open")


class Dying(Corridor):
    """Ends its whole process."""

    def step(self, action):
        import os

        os._exit(1)


class Finely(Corridor):
    """Takes and observes other floats than most, and insists on its bounds."""

    def __init__(self, fault: str = "", render_mode: str | None = None):
        super().__init__(fault="", render_mode=render_mode)
        self.beyond = np.inf if fault == "infinite" else 0.5
        self.observation_space = spaces.Box(0, 1, (2,), np.float16)
        self.action_space = spaces.Box(-0.1, 0.1, (1,), np.float64)

    def observe(self):
        return np.array([self.beyond, 1.0], np.float16)

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        return self.observe(), np.array([1.0]), self.time == 5, False, None

    def render(self):
        return np.zeros((4, 4, 3), np.uint8)


def drawn():
    """Takes no render_mode, and draws all the same."""
    return Finely(render_mode="rgb_array")


def normalized():
    return gymnasium.wrappers.NormalizeObservation(Corridor())
