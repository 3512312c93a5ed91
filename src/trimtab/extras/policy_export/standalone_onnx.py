"""A trained policy through onnxruntime (pip install onnxruntime): `act(session, observation)`.

The file has one input, `observation` (a batch), and two outputs: `action`, the most likely one, and `outputs`, the
scores of the choices or the means of the actions.
"""

import numpy as np
import onnxruntime


def load(path):
    """A session that runs the file on the processor."""
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def act(session, observation):
    """The most likely action for one observation, or for a batch of them."""
    model_input = session.get_inputs()[0]
    dtype = np.uint8 if "uint8" in model_input.type else np.float32
    observation = np.asarray(observation, dtype)
    one = observation.ndim == len(model_input.shape) - 1
    (action,) = session.run(["action"], {"observation": observation[None] if one else observation})
    return action[0] if one else action


if __name__ == "__main__":
    from pathlib import Path

    policy = load(Path(__file__).with_name("policy.onnx"))
    blank = np.zeros(policy.get_inputs()[0].shape[1:])
    print("action for an observation of zeros:", act(policy, blank))
