"""What Spark throws, said in one clear message.

An error of a pipeline travels far on Spark: raised in a Python worker, it is printed as a traceback, wrapped into a
Java exception, sent to the driver, wrapped by the job, the query and ``foreachBatch``, and arrives with a page of
Java frames.  Nothing of that helps.  What helps is the message that was raised, so :func:`explain` looks for it:

1. our own error in the traceback of a worker wins, with its class and *all* lines of its message;
2. then a message that a native expression raised on our behalf by ``raise_error``: it begins with ``[pellucid] ``, and
   may name its class (``[pellucid] DataError: a null key``), else it is a :class:`~pellucid.errors.StepError`;
3. then an error of any other Python function, with the place where it was raised;
4. then a file with a record in it that cannot be read; and what Spark names (``ARITHMETIC_OVERFLOW``,
   ``PATH_NOT_FOUND`` …) and failures of the machine (memory that ran out, a worker that died, a JVM that has gone), in
   the words of this library;
5. else Spark's own first sentence, without the frames.

The original stays the cause (``raise explain(error) from error``), for ``--verbose``.
"""

from __future__ import annotations

import re

from pellucid import errors
from pellucid.errors import DataError, IntOverflow, PellucidError, StateError, StepError, UsageError, listener

MARK = "[pellucid] "  # what a native expression puts before the message it raises

# Where a message ends that Spark has wrapped: its own words follow.
_END = re.compile(
    r"\n? SQLSTATE: \w{5}\b|\n=== Streaming Query ===|\n== \w+ ==|\n\tat |\nDriver stacktrace:|"
    r"\nCaused by: |\n\nDuring handling of the above exception|\n\nThe above exception was the direct cause|"
    r"\n\nJVM stacktrace:|\nServer stacktrace:|\nTraceback \(most recent call last\):"
)
_OURS = re.compile(r"^pellucid(?:\.\w+)*\.(\w+)(?:: |$)", re.MULTILINE)
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] ")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]{3,}(?:\.[A-Z0-9_]+)*)\]")
_PYTHON = re.compile(r"^((?:\w+\.)*\w+)(?:: (.*))?$")
_JAVA_CLASS = re.compile(r"^(?:(?:[a-z][\w$]*\.)+[A-Z][\w$]*: )+")
_GONE = re.compile(
    r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|Answer from Java side is empty|"
    r"Error while sending or receiving|error occurred while trying to connect to the Java server|Connection refused|"
    r"StatusCode\.UNAVAILABLE"
)
_FILE = re.compile(r"\[FAILED_READ_FILE(?:\.\w+)?\] Encountered error while reading file (\S.*?)\.\s+SQLSTATE")
_HEADER = re.compile(r"CSV header does not conform to the schema\.\n Header: (.*)\n Schema: (.*)")
_MEMORY = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY|OOMKilled")


def explain(error: BaseException) -> PellucidError | None:
    """The error in Pellucid's words, or None if it does not come from Spark.

    >>> explain(DataError("events.csv: row 3 is empty"))
    DataError('events.csv: row 3 is empty')
    >>> explain(ValueError("not Spark's")) is None
    True
    """
    if isinstance(error, PellucidError):
        return error
    names = {f"{cls.__module__.split('.')[0]}.{cls.__name__}" for cls in type(error).__mro__}
    if isinstance(error, ConnectionError):
        return _gone()
    if not names & {"pyspark.PySparkException", "py4j.Py4JError"}:
        return None
    return from_text(_text(error))


def from_text(text: str) -> PellucidError:
    """The same for the text of an error, as Spark prints it.

    >>> from_text('''[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent …):
    ...   File "/job.py", line 8, in push
    ... pellucid.errors.IntOverflow: step 'total' left the 64-bit range
    ...   at push 3
    ...  SQLSTATE: 38000''')
    IntOverflow("step 'total' left the 64-bit range\\n  at push 3")
    >>> from_text("[USER_RAISED_EXCEPTION] [pellucid] DataError: column 'user': a null key SQLSTATE: P0001")
    DataError("column 'user': a null key")
    >>> from_text("[PATH_NOT_FOUND] Path does not exist: file:/data/in. SQLSTATE: 42K03")
    DataError('/data/in does not exist (or Spark may not read it).')
    """
    for look in (
        _ours_from_worker,
        _raised_natively,
        _foreign_python,
        _memory,
        _loose_quote,
        _unreadable_file,
        _by_condition,
        _by_machine,
    ):
        found = look(text)
        if found is not None:
            return found
    return PellucidError(f"Spark failed: {_first_words(text)}")


def _text(error: BaseException) -> str:
    """All that an error says.  A Java error is asked for its text through the JVM, which may have gone."""
    try:
        text = str(error)
        # The error of a stream says that a file could not be read, or that it waited in vain; why is only in its trace.
        more = ""
        if ("[FAILED_READ_FILE" in text or "thrown in awaitResult" in text) and "Caused by: " not in text:
            more = str(getattr(error, "_stackTrace", None) or "")
        return f"{text}\n{more}" if more else text
    except Exception as second:
        return f"{type(error).__name__}: {second}: Connection refused"


def _made(name: str, message: str) -> PellucidError:
    kind = getattr(errors, name, None)
    known = isinstance(kind, type) and issubclass(kind, PellucidError)
    made: PellucidError = kind(message) if known and kind is not None else PellucidError(message)
    return made


def _until_end(text: str, start: int) -> str:
    end = _END.search(text, start)
    return text[start : end.start() if end else len(text)].rstrip()


def _ours_from_worker(text: str) -> PellucidError | None:
    """The last of our errors in the text: a traceback prints what was raised after what it was raised from."""
    found = list(_OURS.finditer(text))
    if not found:
        return None
    last = found[-1]
    return _made(last[1], _until_end(text, last.end()) or last[1])


def _raised_natively(text: str) -> PellucidError | None:
    found = list(_RAISED.finditer(text))
    if not found:
        return None
    message = _until_end(text, found[-1].end())
    if not message.startswith(MARK):
        return StepError(f"raise_error in the query said: {message}")
    named = re.match(r"(\w+): ", message[len(MARK) :])
    if named and isinstance(getattr(errors, named[1], None), type):
        return _made(named[1], message[len(MARK) + named.end() :])
    return StepError(message[len(MARK) :])


def _loose_quote(text: str) -> PellucidError | None:
    """A CSV cell that goes on after its closing quote.

    >>> _loose_quote("Unescaped quote character inside quoted value of CSV field. To allow unescaped quotes, set …")
    DataError('Spark cannot read a value: a CSV cell has text after its closing quote: put the whole cell in quotes, and
    double a quote in it')
    """
    if "Unescaped quote character" not in text:
        return None
    named = list(_FILE.finditer(text))
    place = f"{named[-1][1]}: " if named else ""
    return DataError(
        f"{place}Spark cannot read a value: a CSV cell has text after its closing quote: put the whole cell in quotes, "
        "and double a quote in it"
    )


def _unreadable_file(text: str) -> PellucidError | None:
    """A file with something in it that cannot be read: the file, and the record that its cause names.

    >>> _unreadable_file("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/2.csv.  SQLSTATE: "
    ...     "KD001\\nCaused by: org.apache.spark.SparkRuntimeException: [MALFORMED_CSV_RECORD] Malformed CSV record: "
    ...     "3,4,5 SQLSTATE: KD000")
    DataError('file:///in/2.csv: Spark cannot read a value: Malformed CSV record: 3,4,5')
    """
    named = list(_FILE.finditer(text))
    if not named:
        return None
    file, cause = named[-1][1], text[named[-1].end() :]
    header = _HEADER.search(cause)
    if header is not None:
        return DataError(
            f"{file}: its header is {header[1]}, but that of the first file is {header[2]}: all files of a folder must "
            "have the same columns, in the same order"
        )
    for found in reversed(list(_CONDITION.finditer(cause))):
        said = _sentence(_until_end(cause, found.end()).strip())
        if said:
            return DataError(f"{file}: Spark cannot read a value: {said}")
    if "\nCaused by: " in cause:
        return DataError(f"{file}: Spark cannot read it: {_first_words(cause)}")
    return None


def _by_condition(text: str) -> PellucidError | None:
    """By the innermost condition that Spark names, where we can say it better."""
    for found in reversed(list(_CONDITION.finditer(text))):
        name, said = found[1], _sentence(_until_end(text, found.end()).strip())
        if name == "ARITHMETIC_OVERFLOW":
            return IntOverflow(f"An integer left the signed 64-bit range in a native expression{_called_from(text)}.")
        if name in ("DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO"):
            return StepError(f"Division by zero in a native expression{_called_from(text)}.")
        if name == "STATE_STORE_COMMIT_VALIDATION_FAILED":
            return StateError(
                f"Spark refused the micro-batch ({said.splitlines()[0].rstrip('.')}): its rows were not all computed; "
                "foreachBatch must compute the whole DataFrame (write or collect it; not only limit, take or first)"
            )
        if name == "PATH_NOT_FOUND":
            path = re.search(r"Path does not exist: (?:file:)?(.+?)\.?$", said, re.MULTILINE)
            return DataError(f"{path[1] if path else said} does not exist (or Spark may not read it).")
        if name == "PARQUET_TYPE_ILLEGAL" and "NANOS" in said:
            return DataError(
                f"Spark cannot read times in nanoseconds from Parquet ({said.rstrip('.')}), which is what pandas "
                "writes: write them in microseconds, as with to_parquet(…, coerce_timestamps='us') or Arrow's "
                "write_table(…, coerce_timestamps='us')"
            )
        if name.startswith("UNRESOLVED_COLUMN"):
            column = re.search(r"with name (.+?) cannot be resolved", said)
            known = re.search(r"Did you mean one of the following\? \[(.+?)\]", said)
            there = f" Columns like it: {known[1]}." if known else ""
            return DataError(f"There is no column {(column[1] if column else said)}.{there}".replace("`", "'"))
        if name in ("STREAM_FAILED", "PYTHON_EXCEPTION", "FOREACH_BATCH_USER_FUNCTION_ERROR") or not said:
            continue
        if name.startswith(("CAST_", "MALFORMED_", "FAILED_READ_FILE", "CANNOT_PARSE")):
            return DataError(f"Spark cannot read a value: {said}")
        return UsageError(f"Spark refused it ({name}): {said}")
    return None


def _called_from(text: str) -> str:
    """Where the expression was written, if Spark knows."""
    found = re.search(r"== DataFrame ==\n\"?(\w+)\"? was called from\n(\S+)", text)
    return f" (written at {found[2]})" if found else ""


def _memory(text: str) -> PellucidError | None:
    if _MEMORY.search(text) is None:
        if "MemoryError" not in text:
            return None
        return PellucidError(  # of Python: the memory of Java has no part in it
            "A Python worker of Spark ran out of memory: give it fewer rows at a time (a larger "
            "spark.sql.shuffle.partitions), or a higher spark.executor.pyspark.memory where that is set"
        )
    return PellucidError(
        f"Spark ran out of memory. Give it more ({_conf()} spark.driver.memory=4g for a local Spark, "
        "spark.executor.memory=4g on a cluster; it counts only for a new session), or smaller pieces (a larger "
        "spark.sql.shuffle.partitions)."
    )


def _conf() -> str:
    return "--conf" if listener() == "command line" else "conf"


def _by_machine(text: str) -> PellucidError | None:
    if "All masters are unresponsive" in text:
        return UsageError(
            "The Spark master takes connections but does not answer as a master does. Are port and version right?"
        )
    if re.search(r"Python worker (exited unexpectedly|failed to connect back)", text):
        return PellucidError(
            "A Python worker died 4 times or could not start: it was killed (most often for want of memory), or a "
            f"library in it crashed. Give more memory ({_conf()} spark.executor.pyspark.memory=2g), or see which with "
            f"{_conf()} spark.python.worker.faulthandler.enabled=true."
        )
    return _gone() if _GONE.search(text) else None


def _gone() -> PellucidError:
    return PellucidError(
        "Spark has gone: it was stopped or killed, or ran out of memory, and does not answer any more. "
        f"Start again with a new session; if memory was short, with more ({_conf()} spark.driver.memory=4g)."
    )


def _foreign_python(text: str) -> PellucidError | None:
    """An error of a Python function that is not ours: its last line, and where it was raised."""
    start = text.rfind("Traceback (most recent call last):")
    if start < 0:
        return None
    end = _END.search(text, start + 1)
    lines = text[start : end.start() if end else len(text)].rstrip().splitlines()
    places = [found for line in lines if (found := re.match(r'\s+File "(.+)", line (\d+), in (.+)', line))]
    first = next((i for i, line in enumerate(lines) if i > 0 and _PYTHON.match(line)), len(lines) - 1)
    if lines[first].startswith(("pyspark.", "py4j.", "MemoryError")):
        return None  # not the function's fault, but of what it called
    where = f" (in {places[-1][3]}, {places[-1][1]}:{places[-1][2]})" if places else ""
    raised = "\n".join(lines[first:])
    return StepError(f"A Python function failed on Spark{where}: {raised}")


def _sentence(said: str) -> str:
    """Spark's words without the plan and without its advice to switch checks off."""
    said = said.split(";\n")[0].split("\n'")[0].rstrip("; \n")
    return re.sub(r"\s*(?:Parse Mode: |If necessary set|Use `try_\w+`|Use 'try_\w+').*", "", said, flags=re.DOTALL)


def _first_words(text: str) -> str:
    """The message of the innermost cause, without class names, task numbers and frames."""
    inner = text.rsplit("\nCaused by: ", 1)[-1]
    inner = re.sub(r"^An error occurred while calling [\w.$:]+\n: ", "", inner)
    inner = re.sub(r"^.*?most recent failure: Lost task .*?\): ", "", inner, flags=re.DOTALL)
    words = _JAVA_CLASS.sub("", _sentence(_until_end(inner, 0))).strip()
    return words or text.strip().splitlines()[0]
