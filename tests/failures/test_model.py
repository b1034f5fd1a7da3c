"""The rules and definitions of section 4, one by one, and valid initial configurations."""

from __future__ import annotations

import pickle
import random

import pytest

from pellucid.errors import DataError, PellucidError, UsageError
from pellucid.failures.model import (
    BD,
    EV,
    FL,
    Configuration,
    Consume,
    FFail,
    FRecover,
    IBorder,
    IEvent,
    Map,
    Message,
    Normal,
    Produce,
    State,
    Task,
    apply_actions,
    f_fail,
    f_recover,
    gce,
    i_border,
    i_event,
    initial,
    lcs,
    on_stream,
    out,
    s_step,
    steps,
    valid_initial,
)
from pellucid.failures.model.notation import read, read_run, write, write_run
from tests.failures.cuts import Local, Receive, Send, SpaceTime, judge, read_cut, snapshot_of
from tests.failures.graphs import random_graph, random_run
from tests.seeds import HUNT, seeds

add = Task(lambda v, w: (v + w, [v + w]), ("i",), "o")
pass_on = Task(lambda v, w: (v, [w]), ("o",), "p")


def pair() -> Configuration:
    return initial({"a": add, "b": pass_on}, {"i": [[1, 2], [3]]}, {"a": 0, "b": 0})


def run(c: Configuration, *wanted: str) -> Configuration:
    """Take the enabled steps whose labels begin so."""
    for text in wanted:
        c = next(after for label, after in steps(c) if str(label).startswith(text))
    return c


class TestActions:
    def test_production_counts_up_and_adds(self) -> None:
        numbers, messages = apply_actions(
            (Produce("s", 1, EV(5)), Produce("s", 1, BD)), Map({"s": 3}), frozenset()
        ) or ((), ())
        assert numbers == Map({"s": 5})
        assert messages == {Message(3, "s", 1, EV(5)), Message(4, "s", 1, BD)}

    def test_consumption_counts_up_and_leaves_the_message_for_others(self) -> None:
        there = frozenset({Message(0, "s", 1, EV(5))})
        assert apply_actions((Consume("s", 1, EV(5)),), Map({"s": 0}), there) == (Map({"s": 1}), there)

    @pytest.mark.parametrize(
        "action", [Consume("s", 1, EV(6)), Consume("s", 2, EV(5)), Consume("s", 1, BD), Consume("r", 1, EV(5))]
    )
    def test_consumption_of_what_is_not_there_is_undefined(self, action: Consume) -> None:
        assert apply_actions((action,), Map({"s": 0}), frozenset({Message(0, "s", 1, EV(5))})) is None

    def test_no_actions_change_nothing(self) -> None:
        assert apply_actions((), Map({"s": 2}), frozenset()) == (Map({"s": 2}), frozenset())


class TestRules:
    def test_i_event(self) -> None:
        local = i_event(add, State(Map({0: 0}), Normal(1, 4)), "i", 3)
        assert local == ((Consume("i", 1, EV(3)), Produce("o", 1, EV(7))), State(Map({0: 0}), Normal(1, 7)))

    def test_i_border_takes_one_border_from_every_input(self) -> None:
        task = Task(lambda v, w: (v, []), ("i", "j"), "o")
        local = i_border(task, State(Map({0: 0}), Normal(1, 4)))
        assert local is not None
        assert local[0] == (Consume("i", 1, BD), Consume("j", 1, BD), Produce("o", 1, BD))
        assert local[1] == State(Map({0: 0, 1: 4}), Normal(2, 4))

    def test_a_failed_task_does_nothing_but_fail(self) -> None:
        failed = State(Map({0: 0}), FL)
        assert i_event(add, failed, "i", 3) is None and i_border(add, failed) is None
        assert f_fail(add, failed) == ((), failed)

    def test_f_fail_keeps_the_archive(self) -> None:
        assert f_fail(add, State(Map({0: 0, 1: 5}), Normal(2, 9))) == ((), State(Map({0: 0, 1: 5}), FL))

    def test_s_step_needs_the_message(self) -> None:
        c = pair()
        assert s_step(c, "a", ((Consume("i", 1, EV(9)),), c.Sigma["a"])) is None

    def test_a_stream_with_a_border_next_is_blocked_until_the_others_have_theirs(self) -> None:
        c = initial({"t": Task(lambda v, w: (v, [w]), ("i", "j"), "o")}, {"i": [[], [5]], "j": [[6], []]}, {"t": 0})
        assert [str(z) for z, _ in steps(c, failures=False)] == ["I-EVENT t  -j ⟨1, EV(6)⟩  +o ⟨1, EV(6)⟩"]
        c = steps(c, failures=False)[0][1]
        assert [str(z) for z, _ in steps(c, failures=False)] == ["I-BORDER t  -i ⟨1, BD⟩  -j ⟨1, BD⟩  +o ⟨1, BD⟩"]

    def test_f_recover_needs_a_failed_task(self) -> None:
        c = pair()
        assert f_recover(c) is None
        assert f_recover(run(c, "F-FAIL b")) == c

    def test_labels_are_trace_steps(self) -> None:
        c = run(pair(), "F-FAIL b")
        labels = [label for label, _ in steps(c)]
        event = IEvent("a", Map({"i": 0, "o": 0}), (Consume("i", 1, EV(1)), Produce("o", 1, EV(1))))
        assert labels == [event, FFail("a"), FFail("b"), FRecover()]
        assert isinstance(next(z for z, _ in steps(run(pair(), "I-EVENT a", "I-EVENT a"))), IBorder)


class TestDefinitions:
    def committed(self) -> Configuration:
        """Epoch 1 is complete, epoch 2 is begun."""
        return run(
            pair(),
            *["I-EVENT a", "I-EVENT a", "I-BORDER a"],
            *["I-EVENT b", "I-EVENT b", "I-BORDER b"],
            "I-EVENT a",
            "I-EVENT b",
        )

    def test_gce_is_the_least_of_the_greatest(self) -> None:
        assert gce(pair()) == 0
        assert gce(run(pair(), "I-EVENT a", "I-EVENT a", "I-BORDER a")) == 0
        assert gce(self.committed()) == 1

    def test_out_shows_complete_epochs_of_all_streams(self) -> None:
        shown = out(self.committed())
        assert {str(m) for m in on_stream(shown, "p")} == {"0 p ⟨1, EV(1)⟩", "1 p ⟨1, EV(3)⟩", "2 p ⟨1, BD⟩"}
        assert {m.e for m in shown} == {1}
        assert len(on_stream(shown, "i")) == 3

    def test_lcs_goes_back_to_the_common_epoch(self) -> None:
        c = self.committed()
        back = lcs(c)
        assert back.Sigma == Map(
            {"a": State(Map({0: 0, 1: 3}), Normal(2, 3)), "b": State(Map({0: 0, 1: 0}), Normal(2, 0))}
        )
        assert back.N == Map({"a": Map({"i": 3, "o": 3}), "b": Map({"o": 3, "p": 3})})
        assert back.M == c.D | out(c) and back.D == c.D

    def test_lcs_cuts_archives_that_are_ahead(self) -> None:
        c = run(pair(), "I-EVENT a", "I-EVENT a", "I-BORDER a", "I-EVENT a", "I-BORDER a")
        assert dict(c.Sigma["a"].archive) == {0: 0, 1: 3, 2: 6}
        assert lcs(c) == pair()

    @pytest.mark.seeded
    def test_out_is_monotone_and_lcs_keeps_it(self) -> None:
        """Definition 5.3 for out, and Lemma B.6: only a committing border changes it."""
        for seed in seeds(60):
            rng = random.Random(seed)
            c = random_graph(rng)
            for _ in range(40):
                assert out(lcs(c)) == out(c) and lcs(lcs(c)) == lcs(c)
                enabled = steps(c)
                label, after = rng.choice(enabled)
                assert out(c) <= out(after)
                if gce(after) == gce(c):
                    assert out(after) == out(c)
                else:
                    assert isinstance(label, IBorder)
                c = after


def test_configurations_can_be_hashed_and_pickled() -> None:
    c = run(initial({"t": Task(divide, ("i",), "o")}, {"i": [[5]]}, {"t": 0}), "F-FAIL t")
    again = pickle.loads(pickle.dumps(c))
    assert again == c and hash(again) == hash(c) and len({c, again}) == 1
    assert f_recover(again) == f_recover(c)


def divide(v: int, w: int) -> tuple[int, list[int]]:
    return w // 2, [w % 2]


TASK = Task(lambda v, w: (v, [w]), ("i",), "o")


@pytest.mark.parametrize(
    ("tasks", "inputs", "message"),
    [
        ({}, {}, "a configuration needs at least one task"),
        (
            {"t": Task(divide, (), "o")},
            {},
            "task 't' has no input: it could take I-BORDER for ever; give it an input stream",
        ),
        (
            {"t": Task(divide, ("i", "i"), "o")},
            {"i": []},
            "task 't' reads stream 'i' twice: I-BORDER takes one border from each; name it once",
        ),
        (
            {"t": TASK, "u": TASK},
            {"i": []},
            "tasks 't' and 'u' both produce stream 'o': a stream has at most one producer; give each task its own "
            "output",
        ),
        (
            {"a": Task(divide, ("i", "z"), "x"), "b": Task(divide, ("x",), "y"), "c": Task(divide, ("y",), "z")},
            {"i": []},
            "the tasks form a cycle: a → b → c → a; the graph must be acyclic",
        ),
        ({"t": Task(divide, ("o",), "o")}, {}, "the tasks form a cycle: t → t; the graph must be acyclic"),
        ({"t": TASK}, {}, "task 't' reads stream 'i', which no task produces and no input is given for"),
        ({"t": TASK}, {"i": [[1]], "o": [[1]]}, "stream 'o' is produced by task 't': it cannot have input messages"),
        (
            {"t": Task(divide, ("i", "j"), "o")},
            {"i": [[1]], "j": [[1], []]},
            "input stream 'i' ends with epoch 1, 'j' with epoch 2: every input must have the same epochs (an epoch may "
            "be empty)",
        ),
    ],
)
def test_what_is_not_valid_is_named(tasks: dict[str, Task], inputs: dict[str, list[list[int]]], message: str) -> None:
    with pytest.raises(PellucidError) as caught:
        initial(tasks, inputs, dict.fromkeys(tasks, 0))
    assert str(caught.value) == message


def test_states_must_be_given_for_the_tasks() -> None:
    for states, message in [
        ({}, "task 't': no initial state is given"),
        ({"t": 0, "u": 0}, "task 'u': a state is given, but no such task"),
    ]:
        with pytest.raises(PellucidError) as caught:
            initial({"t": TASK}, {"i": []}, states)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([(0, 1, EV(1))], "input stream 'i': epoch 1 is without a border: end each epoch with BD"),
        ([(0, 1, EV(1)), (1, 2, BD)], "input stream 'i': epoch 1 is without a border: message 1 is already of epoch 2"),
        ([(0, 1, BD), (1, 3, BD)], "input stream 'i': epoch 2 is missing: message 1 is already of epoch 3"),
        ([(0, 2, BD)], "input stream 'i': epoch 1 is missing: message 0 is already of epoch 2"),
        (
            [(0, 1, BD), (2, 2, BD)],
            "input stream 'i': message number 1 is missing or there twice: numbers go 0, 1, 2, …",
        ),
        (
            [(0, 1, BD), (0, 1, EV(1))],
            "input stream 'i': message number 1 is missing or there twice: numbers go 0, 1, 2, …",
        ),
        ([(0, 1, BD), (1, 1, EV(3)), (2, 2, BD)], "input stream 'i': message 1 is of epoch 1, which was closed before"),
    ],
)
def test_ill_formed_inputs_are_named(messages: list[tuple[int, int, object]], message: str) -> None:
    c = initial({"t": TASK}, {"i": []}, {"t": 0})
    there = frozenset(Message(n, "i", e, d) for n, e, d in messages)  # type: ignore[arg-type]
    with pytest.raises(PellucidError) as caught:
        valid_initial(Configuration(c.Pi, c.Sigma, c.N, there, there))
    assert str(caught.value) == message


def test_states_numbers_and_log_must_be_those_of_the_start() -> None:
    c = initial({"t": TASK}, {"i": [[1]]}, {"t": 0})
    later = steps(c)[0][1]
    for bad, message in [
        (
            Configuration(c.Pi, Map({"t": State(Map({0: 0}), Normal(2, 0))}), c.N, c.M, c.D),
            "task 't': its initial state must be",
        ),
        (
            Configuration(c.Pi, c.Sigma, later.N, c.M, c.D),
            "task 't': its sequence numbers must be 0 for each of its streams",
        ),
        (
            Configuration(c.Pi, c.Sigma, c.N, c.M, frozenset()),
            "the messages of an initial configuration must be the logged input",
        ),
    ]:
        with pytest.raises(PellucidError, match=message):
            valid_initial(bad)


def test_equal_numbers_of_another_type_are_not_confused() -> None:
    """3 == 3.0, and so are messages that hold them; but each configuration has its own."""
    task = Task(lambda v, w: (v, [type(w).__name__]), ("i",), "o")
    for value, name in ((3, "int"), (3.0, "float"), (True, "bool"), (1, "int")):
        c = initial({"t": task}, {"i": [[value]]}, {"t": 0})
        (label, _), *_ = steps(c, failures=False)
        assert label.X[1].d.w == name  # type: ignore[union-attr]


# Texts of runs and traces: there and back again.

# ruff: noqa: N806 - the paper's letters


RUN = "a: i, j -> m  sum\nb: m -> o  copy\ni: 1 2 | |\nj: | 5 |"


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(3))
def test_a_trace_written_and_read_is_the_same(block: int) -> None:
    """Valid traces in short form; traces with moved, doubled and dropped steps with those written out."""
    for seed in seeds(40, block * 40):
        rng = random.Random(seed)
        c, Z = random_run(seed, length=30)
        text = write(Z, c)
        assert read(text, c) == Z
        assert "[" not in text
        if Z:
            i, k = rng.randrange(len(Z)), rng.randrange(len(Z))
            changed = [*Z[:i], Z[k], *Z[i + rng.randint(0, 1) :]]
            assert read(write(changed, c), c) == changed


def test_a_run_written_and_read_is_the_same() -> None:
    c, Z = read_run(RUN + "\na<i b a<i a! ^ a<i")
    text = write_run(c, Z)
    assert text == "a: i, j -> m  sum\nb: m -> o  copy\ni: 1 2 | |\nj: | 5 |\na<i b a<i a! ^ a<i"
    assert read_run(text) == (c, Z)


def test_kinds_of_steps() -> None:
    _, Z = read_run("t: i -> o  copy\ni: 1 |\n\nt t| t!  # comments are for people\n^")
    assert [type(z) for z in Z] == [IEvent, IBorder, FFail, FRecover]


def test_events_of_many_kinds() -> None:
    c, Z = read_run("t: i -> o  copy\ni: 'a b' (1, 'x y') None -2.5 True 'c\\\\' |\nt t t t t t t|")
    values = [z.X[0].d.w for z in Z if isinstance(z, IEvent) and isinstance(z.X[0].d, EV)]
    assert values == ["a b", (1, "x y"), None, -2.5, True, "c\\"]
    for k in range(1, len(Z)):  # written out
        assert read(write(Z[k:], c), c) == Z[k:]
    assert read_run(write_run(c, Z)) == (c, Z)


def test_own_functions_by_name() -> None:
    own = {"half": (lambda v, w: (v, [w // 2]), 0)}
    c, Z = read_run("t: i -> o  half\ni: 8 |\nt", own)
    assert str(Z[0]) == "I-EVENT t  -i ⟨1, EV(8)⟩  +o ⟨1, EV(4)⟩"
    assert write_run(c, Z, own).startswith("t: i -> o  half\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: i -> o  nothing",
            "line 1: no function is called 'nothing': there are copy, count, keep, last, sum, twice",
        ),
        ("t: i -> o copy\ni: 1", "line 2: the last epoch is without a border: end it with |"),
        ("t: i -> o copy\ni: x |", "line 2: 'x' is no event: write numbers, 'texts', or tuples of them"),
        (
            RUN + "\n??",
            "'??' is no step: write a, a<i, a|, a!, ^, or a step in full (see pellucid.failures.model.notation)",
        ),
        (RUN + "\nz", "'z': there is no task 'z': there are a, b"),
        (RUN + "\na", "'a': task 'a' has the inputs i, j: say which, as a<i"),
        (RUN + "\nb", "'b' cannot be taken here; what can: a<i"),
        (RUN + "\na<j", "'a<j' cannot be taken here; what can: a<i"),
        (RUN + "\n^ a<i", "'a<i': after a step that cannot be taken, steps must be written out in full"),
        (RUN + "\nb[m:x]-m@1=1", "'b[m:x]-m@1=1' is no step: invalid literal for int() with base 10: 'x'"),
        (RUN + "\nb[m:0]-m@1=q", "'b[m:0]-m@1=q' is no step: no value at 'q'"),
        (RUN + "\nb[m:0]-m@1?", "'b[m:0]-m@1?' is no step: no action at '-m@1?'"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_run(text)
    assert str(caught.value) == message


def test_what_cannot_be_written_is_named() -> None:
    f = lambda v, w: (v, [])
    for c, message in [
        (
            initial({"a b": Task(f, ("i",), "o")}, {"i": [[1]]}, {"a b": 0}),
            "the name 'a b' cannot be written: a name has letters",
        ),
        (
            initial({"a": Task(f, ("i",), "o")}, {"i": [[frozenset({1})]]}, {"a": 0}),
            "the event frozenset({1}) cannot be written: only",
        ),
    ]:
        with pytest.raises(UsageError) as caught:
            write_run(c, [], {"f": (f, 0)})
        assert str(caught.value).startswith(message)
    with pytest.raises(UsageError, match="task 'a': its function has no name: give it in functions="):
        write_run(c, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (">m", "'>m' comes before the first process: begin with 'name:'"),
        ("p: | >m |", "process 'p' has two snapshots: put one | into its line"),
        ("p: >m", "process 'p' has no snapshot: put a | into its line"),
    ],
)
def test_cuts_that_cannot_be_read_are_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_cut(text)
    assert str(caught.value) == message


# Snapshots judged: Figure 3 and its neighbours, and all snapshots of random runs.

# ruff: noqa: N806 - the paper's letters


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("p: >m | >n  q: <m | <n", "complete", "complete: consistent, and nothing is in flight"),
        ("p: | >m  q: <m |", "inconsistent", "inconsistent: message m is received by q, but not sent by p"),
        ("p: >m |  q: | <m", "in flight", "consistent, with 1 message in flight: m from p to q"),
        ("p: >m >n |  q: <m |", "in flight", "consistent, with 1 message in flight: n from p to nobody yet"),
        ("p: >m |  q: <m |  r: | <m", "in flight", "consistent, with 1 message in flight: m from p to r"),
        ("p: x | y  q: z |", "complete", "complete: consistent, and nothing is in flight"),
        (
            "p: >m | >n  q: | <m <n  r: <n |",
            "inconsistent",
            "inconsistent: message n is received by r, but not sent by p",
        ),
        ("p: >m >n |  q: | <m <n", "in flight", "consistent, with 2 messages in flight: m from p to q; n from p to q"),
    ],
)
def test_cuts(text: str, kind: str, words: str) -> None:
    found = judge(*read_cut(text))
    assert (found.kind, str(found)) == (kind, words)
    assert found.consistent == (kind != "inconsistent")


def test_bad_runs_and_cuts_are_named() -> None:
    for processes, message in [
        ({"p": [Send("m"), Send("m")]}, "message m is sent twice, by p and by p: give each its own name"),
        ({"p": [Receive("m")]}, "message m is received by p, but nobody sends it in this run"),
        ({"p": [Send("m")], "q": [Receive("m"), Receive("m")]}, "message m is received twice by q"),
    ]:
        with pytest.raises(DataError) as caught:
            SpaceTime(processes)
        assert str(caught.value) == message
    run = SpaceTime({"p": [Local()]})
    for cut, message in [
        ({}, "the cut says nothing about process 'p': give the number of its events in the snapshot"),
        ({"p": 2}, "the cut of process 'p' is at 2: it has 1 events"),
        ({"p": 1, "q": 0}, "the cut names process 'q', which is not in the run: there are p"),
    ]:
        with pytest.raises(UsageError) as wrong:
            judge(run, cut)
        assert str(wrong.value) == message


def test_messages_from_outside_are_no_one_elses() -> None:
    run = SpaceTime({"p": [Receive("in")]}, inputs=frozenset({"in"}))
    assert judge(run, {"p": 1}).kind == "complete"


@pytest.mark.seeded
def test_every_snapshot_of_the_protocol_is_complete_and_no_neighbour_goes_unnoticed() -> None:
    """Snapshots at borders are complete; moved to a random place, a cut is what counting sends and receives says."""
    complete = others = 0
    for seed in seeds(120):
        c, Z = random_run(seed, length=60)
        last = max((i + 1 for i, z in enumerate(Z) if isinstance(z, FRecover)), default=0)
        epochs = [{z.epoch for z in Z[last:] if isinstance(z, IBorder) and z.p == p} for p in c.Pi]
        for epoch in set.intersection(*epochs):
            run, cut = snapshot_of(Z, c, epoch)
            assert judge(run, cut).kind == "complete"
            complete += 1
            rng = random.Random(seed)
            moved = {p: rng.randint(0, len(run.processes[p])) for p in cut}
            sent = {e.message for p, n in moved.items() for e in run.processes[p][:n] if isinstance(e, Send)}
            got = {(e.message, p) for p, n in moved.items() for e in run.processes[p][:n] if isinstance(e, Receive)}
            due = {(m, p) for m in sent for p in run.readers[m]}
            wrong = {(m, p) for m, p in got if m not in run.inputs and m not in sent}
            found = judge(run, moved)
            assert {(f.message, f.receiver) for f in found.not_sent} == wrong
            assert {(f.message, f.receiver) for f in found.in_flight} == due - got
            others += found.kind != "complete"
    assert HUNT or (complete > 60 and others > 10)


def test_a_snapshot_that_was_not_taken_is_named() -> None:
    c, Z = read_run("a: i -> m copy\nb: m -> o copy\ni: 1 |\na a|")
    with pytest.raises(DataError) as caught:
        snapshot_of(Z, c, 1)
    assert str(caught.value) == "epoch 1: b has no snapshot of it in the last generation of the trace"
