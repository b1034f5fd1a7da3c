"""Find the pipeline that ``FILE:NAME`` means; a broken file is the user's, so the message points into it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from pellucid.errors import Control, DataError, PellucidError, PipelineError, UsageError, nearest
from pellucid.internal import PACKAGE
from pellucid.internal.expr.identity import loaded_from
from pellucid.internal.graph.build import Built

if TYPE_CHECKING:
    from pellucid.internal.pipeline import Pipeline


def load_pipeline(target: str) -> Pipeline:
    """The pipeline named by ``path.py:name`` or ``package.module:name``; the name may be left out if there is one."""
    file, name = _parts(target)
    return pipeline_in(file, name, _load(file))


def pipeline_in(file: str, name: str, module: types.ModuleType) -> Pipeline:
    """The pipeline of this name in a file that is loaded; the name may be left out if there is one."""
    found: dict[str, Any] = {key: value for key, value in vars(module).items() if isinstance(value, Built)}
    if name:
        return _named(file, name, module, found)
    own = {id(p): (key, p) for key, p in found.items() if p.__module__ == module.__name__}
    choice = list(own.values()) or list({id(p): (key, p) for key, p in found.items()}.values())
    if len(choice) == 1:
        return cast("Pipeline", choice[0][1])
    if not choice:
        raise UsageError(f"{file}: has no pipeline: write @pipeline above a function over streams")
    names = ", ".join(key for key, _ in choice)
    raise UsageError(f"{file}: has {len(choice)} pipelines ({names}): say which, as in {file}:{choice[0][0]}")


def _parts(target: str) -> tuple[str, str]:
    file, colon, name = target.rpartition(":")
    if not colon or os.path.exists(target):
        return target, ""
    if not file:
        raise UsageError(f"{target!r}: no file before the colon: write FILE:NAME")
    return file, name


def _named(file: str, name: str, module: Any, found: dict[str, Pipeline]) -> Pipeline:
    if name in found:
        return found[name]
    if hasattr(module, name):
        what = type(getattr(module, name)).__name__
        advice = ": put @pipeline above it" if what == "function" else ""
        raise UsageError(f"{file}: {name!r} is no pipeline but a {what}{advice}")
    have = f"its pipelines are {', '.join(found)}" if found else "it has none"
    raise UsageError(f"{file}: no pipeline {name!r}: {have}{nearest(name, list(found))}")


def _load(file: str) -> types.ModuleType:
    """Run the user's file.  What it prints goes to stderr: stdout is for the result."""
    is_path = file.endswith(".py") or os.sep in file or os.path.exists(file)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return _load_path(file) if is_path else _load_module(file)
        except PipelineError as error:
            raise type(error)(f"{file}{_user_line(error, file)}: {error}") from None
        except (UsageError, DataError) as error:
            line = _user_line(error, file)  # of the user's own call; none, if the file could not be loaded at all
            if not line:
                raise
            raise type(error)(f"{file}{line}: {error}") from None
        except PellucidError:
            raise
        except SyntaxError as error:
            code = f"\n    {error.text.strip()}" if error.text else ""
            name = file if _same(error.filename, file) else error.filename
            raise UsageError(f"{name}:{error.lineno}: syntax error: {error.msg}{code}") from None
        except SystemExit as error:
            raise UsageError(
                f"{file}{_user_line(error, file)}: the file ends the program while it is loaded (exit code "
                f"{error.code}): guard that with if __name__ == '__main__'"
            ) from None
        except (Control, KeyboardInterrupt):
            raise
        except BaseException as error:
            what = f"{type(error).__name__}: {error}"
            raise UsageError(f"{file}{_user_line(error, file)}: {what}{_code_line(error)}") from None


def _load_path(path: str) -> types.ModuleType:
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder: give a Python file, as in {os.path.join(path, 'pipeline.py')}:NAME")
    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        near = nearest(os.path.basename(path), os.listdir(folder)) if os.path.isdir(folder) else ""
        raise UsageError(f"{path}: no such file{near}")
    full = os.path.abspath(path)
    name = os.path.splitext(os.path.basename(full))[0].replace("-", "_").replace(".", "_")
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"pellucid_user_{name}"
    # An explicit loader, so that any ending will do.
    loader = _Source(name, full)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(full)
    sys.modules[name] = module
    try:
        with _neighbours(folder):
            loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Source(importlib.machinery.SourceFileLoader):
    """Reads the file itself every time, as Python does with a program.

    Python's cache of compiled modules takes a file for unchanged that was changed within the same second and is as long
    as before; and it would leave a ``__pycache__`` beside the user's file.
    """

    def get_code(self, fullname: str) -> types.CodeType:
        """The file as it is now, compiled."""
        return self.source_to_code(self.get_data(self.path), self.path)


@contextlib.contextmanager
def _neighbours(folder: str) -> Iterator[None]:
    """Let a user's file import its neighbours: before all others while it is loaded, as if Python ran it.

    Afterwards, for an import inside a function, they come behind the standard library: else a queue.py there would
    be taken for Python's own by whatever imports that one next.
    """
    before = set(sys.modules)
    loaded_from.add(folder)
    sys.path.insert(0, folder)
    hidden = _hide_those_of_others(folder)
    try:
        yield
    finally:
        _show_again(hidden)
        _users.update(name for name in set(sys.modules) - before if _file_of(name).startswith(folder + os.sep))
        with contextlib.suppress(ValueError):  # the file may have changed it too
            sys.path.remove(folder)
        if folder not in sys.path:
            _add_behind(folder)


_users: set[str] = set()  # the names of modules that came with users' files: those files, and their neighbours


def _file_of(name: str) -> str:
    return str(getattr(sys.modules.get(name), "__file__", None) or "")


def _hide_those_of_others(folder: str) -> dict[str, types.ModuleType]:
    """Modules that a user's file in another folder brought with it, where this folder has one of the same name.

    Python has one module of a name in a process.  When ``old/p.py`` is compared with ``new/p.py``, and both import
    their own ``settings.py``, the second one would get the first one's, and whatever differs there would not be seen.
    """
    hidden = {}
    for top in {name.partition(".")[0] for name in _users & sys.modules.keys()}:
        own = importlib.machinery.PathFinder.find_spec(top, [folder])
        if own is not None and (own.origin or folder) != _file_of(top):
            for name in [n for n in sys.modules if n == top or n.startswith(top + ".")]:
                hidden[name] = sys.modules.pop(name)
    return hidden


def _show_again(hidden: dict[str, types.ModuleType]) -> None:
    """What was hidden comes back; if there are two of a name now, neither: a function that imports it when it is called
    would get one of them, and it would not be known which."""
    for name, module in hidden.items():
        now = sys.modules.get(name)
        sys.modules[name] = module if now is None else _TwoOf(name, module, now)


class _TwoOf(types.ModuleType):
    """In the place of two modules of one name, from two folders: an attempt to use it is an error."""

    def __init__(self, name: str, *both: types.ModuleType) -> None:
        super().__init__(name)
        self.__file__ = getattr(both[-1], "__file__", None)
        self._files = [str(getattr(module, "__file__", None) or module.__name__) for module in both]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(
            f"there are two modules {self.__name__}: {' and '.join(self._files)}: a function that imports it when it "
            "is called could get either; import it at the top of the file"
        )


def _add_behind(folder: str) -> None:
    own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    own |= {os.path.join(path, "lib-dynload") for path in own}
    at = [i for i, path in enumerate(sys.path) if path and os.path.realpath(path) in own]
    sys.path.insert(at[-1] + 1 if at else len(sys.path), folder)


def _load_module(name: str) -> types.ModuleType:
    here = contextlib.nullcontext() if "" in sys.path else _neighbours(os.getcwd())
    try:
        with here:
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"{name}: no such file or module: write FILE.py:NAME or package.module:NAME") from None
        raise


def _same(a: str | None, b: str) -> bool:
    return a is None or os.path.abspath(a) == os.path.abspath(b)


def _last_frame(error: BaseException) -> tuple[str, int] | None:
    """The last line of the user's own code that an error passed through."""
    found, tb = None, error.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<frozen")):
            found = (name, tb.tb_lineno)
        tb = tb.tb_next
    return found


def _user_line(error: BaseException, file: str) -> str:
    frame = _last_frame(error)
    if frame is None:
        return ""
    name, number = frame
    if _same(name, file):
        return f":{number}"
    return f" (in {name}:{number})"


def _code_line(error: BaseException) -> str:
    frame = _last_frame(error)
    linecache.checkcache()
    code = linecache.getline(*frame).strip() if frame else ""
    return f"\n    {code}" if code else ""
