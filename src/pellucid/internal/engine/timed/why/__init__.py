"""Why is it not done?  What holds the windows and rows back that wait in a run by event time, and by which way.

* ``flow``: a pipeline's own graph as one of `pellucid.progress`: a summary for each step, so that *could result in* is
  asked there
* ``question``: does that graph keep its promises (``check.progress`` of a pipeline)
* ``waits``: what waits in an engine, and until when
* ``answer``: who holds it back; ``words`` says it, ``picture`` draws it

Two things are told apart.  A step waits for its **clock**, which is that of the steps `at` before it
(`engine.timed.clock`): who holds something back is who holds that clock back.  What an event **could still
result in** follows from what each step does to its time.  Nothing that could still come is ever given up, for times
only grow on their way (that is what ``question`` proves); but a clock may be waited for by what no event can reach any
more, and then the answer says so.
"""

from pellucid.internal.engine.timed.why.answer import Hold, Progress, SourceNow, StepNow, Waits, progress_of
from pellucid.internal.engine.timed.why.flow import flow_of

__all__ = ["Hold", "Progress", "SourceNow", "StepNow", "Waits", "flow_of", "progress_of"]
