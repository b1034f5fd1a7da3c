"""The budget of a question's parts (`pellucid.model.budget`)."""

from pellucid.model.budget import Budget as Clock
from pellucid.model.budget import now, patiently

__all__ = ["Clock", "now", "patiently"]
