"""The rules of thumb of the notes, as studies."""

from trimtab.experiments.notes.learning_rate import LearningRate
from trimtab.experiments.notes.minibatch_size import NotesMinibatch
from trimtab.experiments.notes.reproducible import Reproducible
from trimtab.experiments.notes.reward_to_go import RewardToGo
from trimtab.experiments.notes.throughput_study import NotesThroughput

NOTES = (Reproducible, NotesThroughput, RewardToGo, NotesMinibatch, LearningRate)
