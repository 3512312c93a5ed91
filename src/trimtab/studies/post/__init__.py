"""The figures of the post and of its draft, as studies."""

from trimtab.studies.post.bias import Bias
from trimtab.studies.post.correlation import Correlation
from trimtab.studies.post.frozenlake import FrozenLake
from trimtab.studies.post.gae import Lambda
from trimtab.studies.post.minibatch import Minibatch
from trimtab.studies.post.split import PostSplit

POST = (Correlation, PostSplit, Lambda, Bias, Minibatch, FrozenLake)
