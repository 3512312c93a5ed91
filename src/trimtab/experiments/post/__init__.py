"""The figures of the post and of its draft, as studies."""

from trimtab.experiments.post.bias_by_steps import Bias
from trimtab.experiments.post.env_step_split import PostSplit
from trimtab.experiments.post.frozenlake import FrozenLake
from trimtab.experiments.post.gae_lambda import Lambda
from trimtab.experiments.post.gradient_correlation import Correlation
from trimtab.experiments.post.minibatches import Minibatch

POST = (Correlation, PostSplit, Lambda, Bias, Minibatch, FrozenLake)
