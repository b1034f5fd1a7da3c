"""Kinds of cases from the autoscaler of Flink: how many workers a measured step needs."""

from __future__ import annotations

from typing import Any

from pellucid.capacity.measured import Job, MeasuredStep
from pellucid.capacity.measured.plan import needed_capacity, round_workers, target_rates, workers_for
from pellucid.errors import PellucidError
from tests.conformance import Differs, Kind, expect


def _answer(what: str, case: dict[str, Any], ask: Any) -> None:
    """A number, or ``"error"`` where the question is wrong."""
    try:
        found = ask()
    except PellucidError as error:
        found = "error"
        if case["expect"] != "error":
            raise Differs(f"{what}: {case['expect']!r} is expected, but: {error}") from None
    expect(what, found, case["expect"])


def target_parallelism(case: dict[str, Any]) -> None:
    known = {"id", "kind", "source", "expect", "parallelism", "target_rate", "true_processing_rate"}
    known |= {"target_utilization", "max_parallelism", "catch_up_s", "max_scale_down_factor", "max_scale_up_factor"}
    known |= {"lag", "restart_s", "lower", "upper", "catch_up_rate"}
    _refuse_unknown(case, known)
    catch_up = float(case.get("catch_up_s", 0))
    lag_rate = case.get("catch_up_rate", case.get("lag", 0) / catch_up if catch_up else 0)
    needed = needed_capacity(
        float(case["target_rate"]),
        float(lag_rate),
        target=float(case["target_utilization"]),
        catch_up=catch_up,
        restart=float(case.get("restart_s", 0)),
    )
    changes = {
        ours: float(case[theirs])
        for ours, theirs in (("max_scale_down", "max_scale_down_factor"), ("max_scale_up", "max_scale_up_factor"))
        if case.get(theirs) is not None
    }
    _answer(
        "workers",
        case,
        lambda: workers_for(
            case["parallelism"], needed, float(case["true_processing_rate"]), most=case["max_parallelism"],
            lower=case.get("lower", 1), upper=case.get("upper"), **changes,
        ),
    )  # fmt: skip


def round_parallelism(case: dict[str, Any]) -> None:
    _refuse_unknown(
        case, {"id", "kind", "source", "expect", "parallelism", "max_parallelism", "factor", "lower", "upper"}
    )
    limits = {"most": case["max_parallelism"], "lower": case.get("lower", 1), "upper": case.get("upper")}
    _answer("workers", case, lambda: round_workers(case["parallelism"], case["factor"], **limits))


def target_rates_of(case: dict[str, Any]) -> None:
    _refuse_unknown(
        case, {"id", "kind", "source", "expect", "source_samples", "sink_samples", "catch_up_s", "restart_s"}
    )
    source = _measured("source", case["source_samples"])
    sink = _measured("sink", case["sink_samples"], hears=("source",))
    rates = target_rates(Job("case", "flink", {"source": source, "sink": sink}), catch_up=float(case["catch_up_s"]))
    for name, wanted in case["expect"].items():
        step = {"source": source, "sink": sink}[name]
        found = {"load": step.busy, "target_rate": rates[name][0], "catch_up_rate": rates[name][1], "lag": step.lag}
        for key, value in wanted.items():
            if key not in found:
                raise Differs(f"{name}: {key} is not known")
            expect(f"{name}: {key}", round(found[key] or 0.0, 9), value)


def _either(case: dict[str, Any], *names: str, default: Any = None) -> Any:
    """A field under one of the names that it goes by."""
    found = [name for name in names if name in case]
    if not found and default is None:
        raise Differs(f"{' or '.join(names)} is missing")
    return case[found[0]] if found else default


_RATE = ("input_rate", "target_rate", "rate")
_LAG = ("catch_up_rate", "lag_rate", "lag")


def _needed(case: dict[str, Any], target: float, restart: float) -> Any:
    catch_up = float(case.get("catch_up_s", 0))
    lag = float(_either(case, *_LAG, default=0))
    if not {"catch_up_rate", "lag_rate"} & case.keys():
        lag = lag / catch_up if catch_up else 0
    rate = float(_either(case, *_RATE))
    found = needed_capacity(rate, lag, target=target, catch_up=catch_up, restart=restart)
    return "infinite" if found == float("inf") else found


def _infinite(value: Any) -> Any:
    return "infinite" if value in ("infinite", "infinity", "inf", "Infinity", float("inf")) else value


def required_capacity(case: dict[str, Any]) -> None:
    """The formula alone."""
    _refuse_unknown(
        case, {"id", "kind", "source", "expect", "catch_up_s", "restart_s", "target_utilization", *_RATE, *_LAG}
    )
    found = _needed(case, float(case["target_utilization"]), float(case.get("restart_s", 0)))
    expect("events per second", found, _infinite(case["expect"]))


def scaling_thresholds(case: dict[str, Any]) -> None:
    """Between which capacities a step is left as it is: below the one its workers are too busy, without the time of a
    restart, above the other they are too idle, with it."""
    known = {"id", "kind", "source", "expect", "catch_up_s", "restart_s", "utilization_max", "utilization_min"}
    _refuse_unknown(case, known | {*_RATE, *_LAG})
    low = _needed(case, float(case["utilization_max"]), 0.0)
    high = _needed(case, float(case["utilization_min"]), float(case.get("restart_s", 0)))
    wanted = case["expect"]
    wanted = [wanted["lower"], wanted["upper"]] if isinstance(wanted, dict) else wanted
    expect("the least and the most", [low, high], [_infinite(one) for one in wanted])


def _measured(name: str, samples: list[dict[str, Any]], hears: tuple[str, ...] = ()) -> MeasuredStep:
    """Counters at two times or more, as one measurement."""
    first, last = samples[0], samples[-1]
    seconds = last["t_s"] - first["t_s"]

    def rate(key: str) -> float | None:
        return (last[key] - first[key]) / seconds if key in last else None

    return MeasuredStep(
        name,
        processed=rate("records_in"),
        growth=rate("lag"),
        lag=last.get("lag"),
        out=rate("records_out"),
        busy=sum(s["load"] for s in samples) / len(samples),
        hears=hears,
    )


def _refuse_unknown(case: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(case.keys() - known - {"note"}):
        raise Differs(f"{', '.join(unknown)}: nobody here knows what that is")


KINDS: dict[str, Kind] = {
    "target_parallelism": target_parallelism,
    "round_parallelism": round_parallelism,
    "target_rates": target_rates_of,
    "required_capacity": required_capacity,
    "scaling_thresholds": scaling_thresholds,
}
