"""From a plan to processes: the sockets between them, and what each does after it is forked."""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
from collections.abc import Callable

from pellucid.internal.base import faults
from pellucid.internal.data.bind import type_of_key
from pellucid.internal.engine.epochs.chain import ChainSource
from pellucid.internal.engine.epochs.dead_letters import STREAM
from pellucid.internal.engine.epochs.job import Job
from pellucid.internal.engine.epochs.messages import Inbox, Link, Outbox, Shape, channel
from pellucid.internal.engine.epochs.plan import Channel, Plan, TaskPlan
from pellucid.internal.engine.epochs.recording import Recorder
from pellucid.internal.engine.epochs.sink import DeadLetterSink, MemberSink, SinkTask
from pellucid.internal.engine.epochs.source import SourceTask
from pellucid.internal.engine.epochs.task import Context, TaskProcess, die_with, run_task
from pellucid.internal.engine.epochs.worker import TimedWorker, Worker


class ChannelEnds:
    """All sockets of a generation: a pair for each channel, and one for each task's link to the coordinator."""

    def __init__(self, plan: Plan) -> None:
        self.senders: dict[str, socket.socket] = {}
        self.receivers: dict[str, socket.socket] = {}
        self.coordinators: dict[str, socket.socket] = {}
        self.links: dict[str, socket.socket] = {}
        for planned in plan.channels:
            self.senders[planned.name], self.receivers[planned.name] = channel()
        for task in plan.tasks:
            self.coordinators[task.name], self.links[task.name] = socket.socketpair()

    def keep_only(self, task: TaskPlan, plan: Plan) -> None:
        """In a task: close what belongs to others, else no reader would ever see the end of a channel."""
        mine = {c.name for c in plan.outputs(task.name)}
        theirs = {c.name for c in plan.inputs(task.name)}
        for ends, kept in (
            (self.senders, mine),
            (self.receivers, theirs),
            (self.links, {task.name}),
            (self.coordinators, set[str]()),
        ):
            for name, end in ends.items():
                if name not in kept:
                    end.close()

    def close_tasks_ends(self) -> None:
        """In the coordinator, once the tasks are started."""
        for ends in (self.senders, self.receivers, self.links):
            for end in ends.values():
                end.close()


def start_task(job: Job, task: TaskPlan, ends: ChannelEnds, epoch: int, floor: int, generation: int) -> int:
    """Fork a task; returns its process id."""
    coordinator = os.getpid()
    with warnings.catch_warnings():
        # From Python 3.12 on a fork beside other threads is warned of; ours are none, a notebook's do no harm here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        die_with(coordinator)  # first of all: until then it could outlive it, and would keep the lock
        ends.keep_only(task, job.plan)
        link = Link(ends.links[task.name])
        run_task(lambda: _build(job, task, ends, link, epoch, floor, generation), link, coordinator, job.store.root)
    finally:
        with contextlib.suppress(BaseException):
            os._exit(4)
    raise AssertionError("not reached")


def _build(
    job: Job, task: TaskPlan, ends: ChannelEnds, link: Link, epoch: int, floor: int, generation: int
) -> tuple[Context, TaskProcess]:
    plan, noted = job.plan, job.settings.record
    inputs, outputs = plan.inputs(task.name), plan.outputs(task.name)
    faults.arm(task.name, generation, os.getppid())

    def shape(channel: Channel) -> Shape:
        key = None if channel.streams == (STREAM,) else type_of_key(job.key)
        return Shape({step: plan.types[step] for step in channel.streams}, key)

    inboxes = [Inbox(c.name, ends.receivers[c.name], shape(c), noted=noted) for c in inputs]
    outboxes = [Outbox(c.name, ends.senders[c.name], shape(c), noted=noted) for c in outputs]
    recorder = Recorder(job.store.root, task.name, generation) if noted else None
    context = Context(task.name, job.run, generation, epoch, job.store, link, inboxes, outboxes, recorder)
    make: dict[str, Callable[[], TaskProcess]] = {
        "source": lambda: (ChainSource if job.chained else SourceTask)(context, job, task, floor),
        "worker": lambda: _worker(job, context, task, outputs),
        "sink": lambda: _sink(job, context, task),
    }
    return context, make[task.kind]()


def _worker(job: Job, context: Context, task: TaskPlan, outputs: list[Channel]) -> TaskProcess:
    assert task.graph is not None
    wanted = [c.streams for c in outputs]
    if job.graph.timed:
        return TimedWorker(context, task.graph, type_of_key(job.key), wanted)
    return Worker(context, task.graph, type_of_key(job.key), wanted, lenient=bool(job.settings.aside))


def _sink(job: Job, context: Context, task: TaskPlan) -> TaskProcess:
    if task.step == STREAM:
        return DeadLetterSink(context, job, task)
    if task.place in job.members:
        return MemberSink(context, job, task)
    # An epoch that waits for another run to commit must not keep the one before it waiting.
    return SinkTask(context, job, task, apart=bool(job.chained))
