"""Why is it not done?  What holds the windows and rows back that wait in a run by event time, and by which way.

* ``flow``: a pipeline's own graph as one of `pellucid.progress`: a summary for each step, so that *could result in* can
  be asked of it; and whether that graph keeps its promises (``check.progress`` of a pipeline)
* ``waits``: what waits in an engine, and until when
* ``answer``: what holds it back, as data and in words; ``picture`` draws it

Two things are told apart.  A step waits for its **clock**, which is that of the steps `at` before it
(`engine.timed.clock`): what holds something back is what holds that clock back.  What an event **could still result
in** follows from what each step does to its time.  Nothing that could still come is ever given up, for times only grow
on their way (that is what ``check.progress`` proves); but a clock may wait for what no event can reach any more, and
then the answer says so.
"""
