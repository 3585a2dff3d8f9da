"""Pair terms: what a training adds to the class-center loss by comparing embeddings with each other."""

from verisphere.pairs.contract import Given, GlobalBatch, PairTerm, Step, Training
from verisphere.pairs.memory import FeatureQueue, OnlineSet

__all__ = ["FeatureQueue", "Given", "GlobalBatch", "OnlineSet", "PairTerm", "Step", "Training"]
