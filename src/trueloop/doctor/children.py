"""Processes that the checked script starts itself: each watches itself, and leaves its verdict in a folder.

A process of `multiprocessing` runs its work under a watch of its own. A program (`subprocess`, `os.system`) gets an
environment in which Python imports `child_startup.py` first, as its `sitecustomize`; that restores the environment. In
both, the watch starts when torch is imported: a process without torch pays nothing. A worker of a pool leaves a verdict
after each task that trained. Workers of loaders are not watched.
When the script has ended, `child_reports.py` merges the verdicts. This file imports no torch.
"""

from __future__ import annotations

import atexit
import importlib.util
import multiprocessing.process
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final
from weakref import WeakSet

from trueloop.doctor.pool_workers import is_pool_worker, report_before_results
from trueloop.doctor.unwatched_programs import note_seen, note_started, unwatched_programs
from trueloop.doctor.watch_options import WatchOptions
from trueloop.usercode.ownership import is_users

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType, TracebackType

    from trueloop.doctor.run_record import ChildRecord
    from trueloop.doctor.watch import Watch
    from trueloop.results.check import Verdict

__all__ = ["Child", "Children", "begin_program"]

STARTUP: Final = Path(__file__).parent / "child_startup.py"  # Copied as `sitecustomize.py` for programs
SPAWNERS: Final = ("torch.multiprocessing", "torch.distributed.elastic")
"""Libraries whose processes do the user's work; those of all others (loaders, managers) serve it."""
ENVIRONMENT: Final = 10  # The position of `env` among the arguments of Popen


@final
@dataclass(frozen=True, slots=True)
class Child:
    """What a child leaves behind."""

    verdict: Verdict
    began: float  # on the machine's monotonic clock
    ended: float
    parent: int
    group: tuple[int, int, str] | None  # The process group that it joined: rank, size, port


# -- in the process that starts others --


@final
class Children:
    """The processes that this one starts, while `followed`."""

    def __init__(self, options: WatchOptions, folder: str = "") -> None:
        self._options = options
        self._folder = folder  # Made for the first child
        self._undo: list[Callable[[], None]] = []
        self._of_pools: WeakSet[Any] = WeakSet()

    @property
    def folder(self) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="trueloop-children-")
            (Path(self._folder) / "options").write_bytes(pickle.dumps(self._options))
            (Path(self._folder) / "startup").mkdir()
            shutil.copyfile(STARTUP, Path(self._folder) / "startup" / "sitecustomize.py")
        return self._folder

    @contextmanager
    def followed(self) -> Iterator[None]:
        self.install()
        try:
            yield
        finally:
            while self._undo:
                self._undo.pop()()

    def install(self) -> None:
        self._replace(multiprocessing.process.BaseProcess, "start", self._wrap_start)
        self._replace(subprocess.Popen, "__init__", self._wrap_popen)
        self._replace(os, "system", self._wrap_system)

    def collect(self) -> tuple[list[Child], list[str], tuple[str, ...]]:
        """What the children have left, in the order in which they started, failures, and commands of programs that
        could not be watched; then the folder is gone."""
        if not self._folder:
            return [], [], ()
        for process in multiprocessing.active_children():
            if not process.daemon and process not in self._of_pools:  # a pool may keep idle workers for minutes
                process.join()  # as Python does at the end of a script
        found = [pickle.loads(file.read_bytes()) for file in Path(self._folder).glob("*.child")]
        failures = [file.read_text() for file in Path(self._folder).glob("*.failed")]
        unwatched = unwatched_programs(self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = ""
        return sorted(found, key=lambda child: child.began), failures, unwatched

    def _replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        wrapper = wrap(original)
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(wrapper, attribute, getattr(original, attribute))
        wrapper.__wrapped__ = original
        setattr(owner, name, wrapper)

        def undo() -> None:
            if getattr(owner, name) is wrapper:  # otherwise somebody has wrapped it: it stays
                setattr(owner, name, original)

        self._undo.append(undo)

    def _wrap_start(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def start(process: Any) -> None:
            if not _does_users_work(process) or "run" in vars(process):
                return original(process)
            if is_pool_worker(process):
                self._of_pools.add(process)
            process.run = _WatchedRun(process, self.folder, self._options)
            try:
                return original(process)
            finally:
                vars(process).pop("run", None)

        return start

    def _wrap_popen(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(process: Any, *args: Any, **kwargs: Any) -> None:
            if len(args) <= ENVIRONMENT:
                given = kwargs.get("env")
                with suppress(Exception):  # an environment that Popen itself will refuse
                    kwargs["env"] = self._environment(os.environ if given is None else given)
            original(process, *args, **kwargs)
            given = args[0] if args else kwargs.get("args")
            with suppress(Exception):  # no folder can be made
                note_started(self.folder, given, shell=bool(kwargs.get("shell")))

        return __init__

    def _wrap_system(self, original: Callable[[Any], int]) -> Callable[[Any], int]:
        def system(command: Any) -> int:
            before = dict(os.environ)
            os.environ.update(self._environment(before))
            try:
                return original(command)
            finally:
                note_started(self.folder, command, shell=True)
                for name in ("TRUELOOP_CHILDREN", "TRUELOOP_PREFIX", "TRUELOOP_PYTHONPATH", "PYTHONPATH"):
                    os.environ.pop(name, None)
                    if name in before:
                        os.environ[name] = before[name]

        return system

    def _environment(self, given: Any) -> dict[Any, Any]:
        before = given.get("PYTHONPATH", "")
        startup = os.path.join(self.folder, "startup")
        path = f"{startup}{os.pathsep}{before}" if before else startup
        names = {"TRUELOOP_CHILDREN": self.folder, "TRUELOOP_PREFIX": sys.prefix, "TRUELOOP_PYTHONPATH": before}
        return {**given, "PYTHONPATH": path, **names}


def _does_users_work(process: Any) -> bool:
    """Does it run a function of the user's, or of a library that only starts processes or hands out tasks?"""
    if is_pool_worker(process):
        return True
    target = getattr(process, "_target", None)
    work = type(process).run if target is None else getattr(target, "func", target)  # `func`: of a partial
    module = getattr(work, "__module__", None) or type(work).__module__
    if module.startswith(SPAWNERS):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return module in ("__main__", "__mp_main__") or (file is not None and is_users(file))


# -- in a child --


@final
class _WatchedRun:
    """Stands for `run` of a process of multiprocessing."""

    def __init__(self, process: Any, folder: str, options: WatchOptions) -> None:
        self._process, self._folder, self._options = process, folder, options

    def __call__(self) -> None:
        in_pool = is_pool_worker(self._process)
        # a step that ends a task by --steps would end its worker, and the pool would wait for the task
        report = _Report(self._folder, replace(self._options, last_step=None) if in_pool else self._options)
        if in_pool:
            report_before_results(self._process, report.finish_task)
        vars(self._process).pop("run", None)
        if "trueloop.doctor.watch" in sys.modules:  # a forked child: its parent's patches are in the way
            sys.modules["trueloop.doctor.watch"].leave_parents_watch()
        Children(self._options, self._folder).install()
        report.begin_with_torch()
        report.finish_before_exit()
        error: BaseException | None = None
        try:
            self._process.run()
        except BaseException as ended_by:
            error = ended_by
            if not _was_cut(ended_by):
                raise
        finally:
            report.finish(error)


def begin_program(folder: str) -> None:
    """Called at the start of a program that the script has started."""
    note_seen(folder)
    options = pickle.loads((Path(folder) / "options").read_bytes())
    Children(options, folder).install()
    if not _is_users_program(sys.orig_argv):
        return
    report = _Report(folder, options)
    previous = sys.excepthook
    ended_by: list[BaseException] = []

    def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        ended_by.append(value)
        if _was_cut(value):
            report.finish(value)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        if "torch" in sys.modules or any(frame.f_code.co_filename == __file__ for frame, _ in traceback.walk_tb(trace)):
            from trueloop.doctor.traceback import strip

            strip(value)
        previous(kind, value, value.__traceback__)

    sys.excepthook = excepthook
    report.begin_with_torch()
    report.finish_before_exit()
    atexit.register(lambda: report.finish(ended_by[-1] if ended_by else None))


def _was_cut(error: BaseException) -> bool:
    """By --steps."""
    return type(error).__name__ == "StopTheRun" and type(error).__module__.startswith("trueloop.")


def _is_users_program(command: list[str]) -> bool:
    """Is it a script, a module or code of the user's, as opposed to an installed command (torchrun) or a helper?"""
    words = iter(command[1:])
    for word in words:
        if word in ("-W", "-X"):
            next(words, "")
        elif word == "-c":
            return "multiprocessing" not in next(words, "")
        elif word.startswith("-m"):
            found = importlib.util.find_spec((word[2:] or next(words, "")).partition(".")[0])
            places = [] if found is None else [found.origin or "", *(found.submodule_search_locations or ())]
            return any(place and is_users(os.path.join(place, "")) for place in places)
        elif not word.startswith("-"):
            installed = os.path.realpath(os.path.dirname(sys.executable)), sysconfig.get_path("scripts")
            return is_users(word) and os.path.dirname(os.path.realpath(word)) not in installed
    return False


class _TorchFinder:
    """Calls a function when torch has been imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                execute(module)
                self._then()

            loader.exec_module = exec_module
        return spec


@final
class _Report:
    """The watch of this process, and what it leaves for the process that merges the reports."""

    def __init__(self, folder: str, options: WatchOptions) -> None:
        self._folder, self._options = Path(folder), options
        self._watch: Watch | None = None
        self._began = time.monotonic()
        self._pid = os.getpid()
        self._group: tuple[int, int, str] | None = None
        self._record: ChildRecord | None = None

    def begin_with_torch(self) -> None:
        if "torch" in sys.modules:
            self._begin()
        else:
            sys.meta_path.insert(0, _TorchFinder(self._begin))

    def finish_before_exit(self) -> None:
        """`os._exit` ends a process without anything else: what it trained would be lost. Only in the main thread: a
        watchdog in another process ends a process whose steps still run."""
        leave = os._exit

        def _exit(status: int) -> NoReturn:
            if threading.current_thread() is threading.main_thread():
                self.finish(None)
            leave(status)

        os._exit = _exit

    def _begin(self) -> None:
        if os.getpid() != self._pid:
            return
        try:
            from trueloop.doctor.watch import Watch

            options = self._options
            rules: dict[str, Any] = {"select": options.select, "ignore": options.ignore, "settings": options.settings}
            if options.run_folder:
                from trueloop.doctor.run_record import ChildRecord

                self._record = ChildRecord(Path(options.run_folder))
            limits: dict[str, Any] = {"budget": options.budget, "last_step": options.last_step}
            self._watch = Watch(**rules, **limits, on_joined=self._joined, run=self._record).start()
        except Exception:  # noqa: BLE001 - trueloop's own failure: reported as such, and the script continues
            self._put("failed", traceback.format_exc().encode())

    def _joined(self, rank: int, size: int) -> None:
        self._group = (rank, size, os.environ.get("MASTER_PORT", ""))
        if self._record is not None:
            self._record.rank = rank

    def finish_task(self) -> None:
        """A task of a pool has ended: if it has trained, that was one training, and the next task is another."""
        if self._watch is None or os.getpid() != self._pid or not self._watch.has_trained:
            return
        self._conclude(None)
        self._options = replace(self._options, run_folder="")  # the curves of the run are those of its first training
        self._began = time.monotonic()
        self._begin()

    def finish(self, error: BaseException | None) -> None:
        if self._watch is None or os.getpid() != self._pid:
            return
        from trueloop.doctor.traceback import CleanTracebacks  # not before: a program without torch must not load it

        self._conclude(error)
        CleanTracebacks().install()  # multiprocessing has yet to print the exception

    def _conclude(self, error: BaseException | None) -> None:
        from trueloop.doctor.launch import outcome_of

        watch, self._watch = self._watch, None
        assert watch is not None
        if isinstance(error, SystemExit) and error.code and error.__context__ is not None:
            error = error.__context__  # torch.multiprocessing.spawn ends a process this way
        try:
            verdict = watch.stop(outcome_of(error), None if error is None or _was_cut(error) else error)
            if self._record is not None:
                self._record.conclude(verdict, verdict.outcome.exit_code)
            if verdict.watched.steps or verdict.watched.backwards:
                child = Child(verdict, self._began, time.monotonic(), os.getppid(), self._group)
                self._put("child", pickle.dumps(child))
        except Exception:  # noqa: BLE001 - as above
            self._put("failed", traceback.format_exc().encode())

    def _put(self, kind: str, content: bytes) -> None:
        """If the folder is gone, the report has been printed without this process."""
        name = f"{self._pid}-{self._began:.6f}"
        with suppress(OSError):
            (self._folder / f"{name}.aside").write_bytes(content)
            (self._folder / f"{name}.aside").replace(self._folder / f"{name}.{kind}")
