"""Planning: how long each queue gets, how many workers and which rate are enough, and what to change first."""

from pellucid.capacity.planning.changes import Change, changes
from pellucid.capacity.planning.plan import BoltPlan, Plan, plan
from pellucid.capacity.planning.show import plan_text

__all__ = ["BoltPlan", "Change", "Plan", "changes", "plan", "plan_text"]
