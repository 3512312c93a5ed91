"""The rules of thumb of the notes, as studies."""

from trimtab.studies.notes.learning_rate import LearningRate
from trimtab.studies.notes.minibatch import NotesMinibatch
from trimtab.studies.notes.reproducible import Reproducible
from trimtab.studies.notes.reward_to_go import RewardToGo
from trimtab.studies.notes.throughput import NotesThroughput

NOTES = (Reproducible, NotesThroughput, RewardToGo, NotesMinibatch, LearningRate)
