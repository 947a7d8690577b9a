"""How a kernel is put together from parts, compiled, and stored on disk.

A part is a plain function whose global names are other parts, words of a lane (:mod:`klazy.kernels.lane`) or constants.
:func:`link` gives each specialisation of a part globals of its own; :func:`compile_kernel` compiles the whole under a name
that says what it is specialised on, together with a fingerprint of this package's sources. Numba caches a function under its
name and code, never under the functions it calls, so the name must carry all of that; and then a kernel may be stored where it
outlives the checkout it came from.
"""

import errno
import gc
import json
import os
import pickle
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dis import get_instructions
from functools import cache, wraps
from hashlib import sha256
from importlib.util import find_spec
from inspect import signature as signature_of
from itertools import count
from operator import add, gt, lt
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any, NamedTuple
from uuid import uuid4
from zlib import crc32

import numpy as np
from llvmlite import binding
from numba import __version__ as numba_version
from numba import config, float64, njit, types
from numba.core import caching, cgutils, codegen, errors, typed_passes, untyped_passes
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_machinery import PassManager
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python
from numba.extending import intrinsic

from klazy.base.files import GLANCE, lock_file
from klazy.base.install import CACHE_REMEDY
from klazy.base.parallel import map_threads
from klazy.base.progress import show_progress
from klazy.kernels import lane as words_of_float
from klazy.kernels import slots
from klazy.kernels.codes import constant_dim
from klazy.kernels.target import list_levels, make_context

_FINGERPRINT = crc32(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
)
_PACKAGE = __name__.rpartition(".")[0]
_STALE = 30 * 24 * 3600.0  # seconds
_REORDERED = {"reassoc", "contract", "nsz"}
_WITHOUT_NAN = ("nnan", "nsz")
# Only kernels call parts, and only Python calls kernels: entrances for anyone else would take a tenth of the time to compile.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


# What Numba does to our functions: its own list without the passes for closures, ``with`` blocks, array expressions and
# exceptions that are made up as a program runs, which no part has. Those take a tenth of the time to compile.
PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
# Compiling makes millions of objects that live until its end, so that looking for garbage among them finds none. Python looks
# each time this many more have been made.
GARBAGE_THRESHOLD = 50_000


def _address(context: Any, array: Any, at: Any):
    """Define typing and code of :func:`pointer`, in the form Numba asks for."""

    def code(context, builder, signature, arguments):
        base, first = arguments
        if isinstance(array, types.Array):
            base = context.make_array(array)(context, builder, base).data
        return builder.gep(base, [first])

    return types.CPointer(float64)(array, types.intp), code


def _on_stack(context: Any, size: Any):
    """Define typing and code of :func:`local`."""

    def code(context, builder, signature, arguments):
        return cgutils.alloca_once(
            builder, context.get_value_type(float64), size=size.literal_value
        )

    if not isinstance(size, types.IntegerLiteral):
        raise errors.RequireLiteralValue("local needs a constant size")
    return types.CPointer(float64)(size), code


def _alive(context: Any, array: Any):
    """Define typing and code of :func:`hold`."""

    def code(context, builder, signature, arguments):
        return context.get_dummy_value()

    return types.void(array), code


def _to_integer(context: Any, number: Any):
    """Define typing and code of ``int`` of a number."""
    kind = types.unliteral(number)
    if not isinstance(kind, types.Integer):
        kind = types.int64

    def code(context, builder, signature, arguments):
        return context.cast(builder, arguments[0], signature.args[0], kind)

    return kind(number), code


def _choose_by(compare: Any) -> Any:
    """Return the typing and code of ``min`` or ``max`` of two numbers: the second if it compares like this with the first."""

    def declare(context: Any, first: Any, second: Any):
        kind = context.unify_types(types.unliteral(first), types.unliteral(second))

        def code(context, builder, signature, arguments):
            x, y = (
                context.cast(builder, *pair, kind)
                for pair in zip(arguments, signature.args, strict=True)
            )
            is_second = context.get_function(compare, types.boolean(kind, kind))
            return builder.select(is_second(builder, (y, x)), y, x)

        return kind(first, second), code

    return declare


def _choose_number_by(sign: str) -> Any:
    """Return the typing and code of ``larger_number`` or ``smaller_number``: the first if it compares like this."""

    def declare(context: Any, first: Any, second: Any):
        def code(context, builder, signature, arguments):
            is_first = builder.fcmp_ordered(sign, *arguments, flags=_WITHOUT_NAN)
            return builder.select(is_first, *arguments, flags=_WITHOUT_NAN)

        return float64(float64, float64), code

    return declare


# pointer(array, at): the entries of a contiguous float64 array, or of a pointer, from position ``at`` on, as C sees them.
# A view would be counted up and down by atomic instructions in every round; a pointer is only an address.
# hold(array): nothing but a use of the array by name. Numba frees an array after its last use, even if a pointer remains.
# local(size): a few numbers that nothing else can point to, so that the compiler keeps them in registers.
if config.DISABLE_JIT:

    def pointer(array, at):
        return array.reshape(-1)[at:]

    def hold(array):
        return

    local = np.empty
    _BUILTINS = {}
    _NUMBER_WORDS = {}
else:
    pointer = intrinsic(_address)
    hold = intrinsic(_alive)
    local = intrinsic(_on_stack)
    # Numba would compile a function for each of these, and for each kind of arguments and flags; an instruction will do.
    _BUILTINS = {
        "int": intrinsic(_to_integer),
        "min": intrinsic(_choose_by(lt)),
        "max": intrinsic(_choose_by(gt)),
    }
    # A branch of Python's would have no flags.
    _NUMBER_WORDS = {
        "larger_number": intrinsic(_choose_number_by(">")),
        "smaller_number": intrinsic(_choose_number_by("<")),
    }


class _OwnLibrary(codegen.JITCodeLibrary):
    """Code whose functions are optimised one by one as it is added, but for those that it only declares."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)


class _PartLibrary(_OwnLibrary):
    """The code of a part, which is only linked into kernels: it is optimised there, and never becomes machine code itself.

    Otherwise all that a part uses would be optimised and translated for the part, and again for every part that uses it.
    Numba's first passes over each function still run: without them the kernels of a run and of an agent would round
    differently.
    """

    def _optimize_final_module(self) -> None:
        return

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # A part has no machine code of its own.

    @property
    def codegen(self) -> Any:
        return _NoEnvironment


class _NoEnvironment:
    """An environment of Python objects for a part's library, which no part uses."""

    @staticmethod
    def set_env(name: str, environment: object) -> None:
        return


class _KernelLibrary(_OwnLibrary):
    """The code of a kernel, whose functions are its own.

    Numba names functions by numbers that begin anew in each process. In a process that loads two kernels from the cache, a
    function of one would else replace a function of the other that has the same name.
    """

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.enable_object_caching()  # Otherwise it could not be stored on disk.

    def _finalize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                function.linkage = (
                    "internal"  # This comes after all optimisation, which would inline it.
                )
        super()._finalize_final_module()

    def _get_module_for_linking(self) -> Any:
        """Return a module with the kernel's names and no more: it is stored next to the machine code, and never linked."""
        names = [
            each.name for each in self.get_defined_functions() if each.linkage.name == "external"
        ]
        return binding.parse_assembly(
            "\n".join(f'define void @"{each}"() {{ ret void }}' for each in names)
        )


class _PartCompiler(Compiler):
    """Numba's compiler with a library of its own."""

    kind = _PartLibrary
    numbers = count()

    def __init__(self, typingctx, targetctx, library, *about) -> None:
        targetctx = kernel_context()
        library = self.kind(targetctx.codegen(), f"klazy_{next(self.numbers)}")
        super().__init__(typingctx, targetctx, library, *about)

    def define_pipelines(self) -> list[Any]:
        """Return our list of passes as the only pipeline."""
        passes = PassManager("klazy")
        for each in PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


class _KernelCompiler(_PartCompiler):
    """Numba's compiler with the library of a kernel."""

    kind = _KernelLibrary


def _inline(part: FunctionType, flags: Any, inline: bool) -> Any:
    """Compile a part for kernels of the processor."""
    part.__globals__.update(_BUILTINS)
    # A flag that is not set is inherited from the caller; False sets it.
    return njit(**_INNER, forceinline=inline, fastmath=flags, pipeline_class=_PartCompiler)(part)


class Lane(NamedTuple):
    """What parts are linked for: its width, its words by name, and how a part is compiled."""

    width: int
    words: dict[str, Any]
    paste: Callable[[FunctionType, Any, bool], Any] = _inline


def _is_word(value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == words_of_float.__name__


FLOAT = Lane(1, {name: value for name, value in vars(words_of_float).items() if _is_word(value)})
FLOAT.words.update(_NUMBER_WORDS)
FLOAT.words.update(
    skip=pointer, beyond=pointer, local=local
)  # Compiled code has no slices of pointers.


def link(part: Callable[..., Any], lane: Lane, **choices: Any) -> Any:
    """Compile ``part`` over a lane, ready to be inlined into a kernel.

    ``choices`` replace global names, in this part and in all that it uses.
    """
    bound = bind(part, lane, choices)
    used = tuple((name, id(bound.__globals__.get(name))) for name in _names_used(part))
    key = (part, id(lane.words), used)
    if key not in _LINKED:
        flags = getattr(part, "flags", _REORDERED)
        inline = getattr(part, "inline", True)
        _LINKED[key] = lane.paste(bound, flags, inline)
    return _LINKED[key]


_LINKED: dict[Any, Any] = {}  # It is never cleared, so that the ids in its keys stay unique.


def bind(part: Any, lane: Lane, choices: dict[str, Any]) -> FunctionType:
    """Copy ``part`` with a scope whose global names are words, choices and linked parts."""
    scope = {"__builtins__": part.__globals__["__builtins__"], "__name__": part.__module__}
    for name in _names_used(part):
        value = choices.get(name, lane.words.get(name, part.__globals__.get(name)))
        if isinstance(value, FunctionType) and value.__module__ == slots.__name__:
            continue  # A slot that is not filled belongs to a branch that the kernel does not have.
        if _is_part(value):
            value = link(value, lane, **choices)
        if value is not None:
            scope[name] = value
    bound = FunctionType(part.__code__, scope, part.__name__, part.__defaults__)
    # Where compilation is off it stays a plain function, which must not be linked again.
    bound.is_bound = True
    return bound


@cache
def _names_used(part: FunctionType) -> tuple[str, ...]:
    """Return the global names that a function uses; attributes have names too, but not these."""
    used = (step.argval for step in get_instructions(part) if step.opname == "LOAD_GLOBAL")
    return tuple(dict.fromkeys(used))


def _is_part(value: object) -> bool:
    """Return True if this is a part of a kernel that is still to be linked."""
    ours = isinstance(value, FunctionType) and value.__module__.startswith(_PACKAGE)
    return ours and not hasattr(value, "is_bound")


_MAKING = RLock()


def once(make: Callable[..., Any]) -> Any:
    """Make each kernel once in a process, also when threads ask for it together.

    A second copy, loaded from the cache that the first has just filled, would share its symbols and lose them with it. So
    ``make`` has no defaults: with and without one, two calls would have different keys. All large dimensions ``d`` share a
    kernel: ``make`` gets 0 for them. After Ctrl-C a kernel is finished in the background, and the next call waits for it.
    """
    made: dict[Any, Any] = {}
    names = list(signature_of(make).parameters)

    @wraps(make)
    def make_locked(*key: Any) -> Any:
        if "d" in names:
            at = names.index("d")
            key = (*key[:at], constant_dim(key[at]), *key[at + 1 :])
        if key not in made:
            map_threads(fill, [key])
        return made[key]

    def fill(key: tuple[Any, ...]) -> None:
        with _MAKING:
            if key not in made:
                made[key] = make(*key)

    make_locked.cache_clear = made.clear
    return make_locked


def compile_kernel(
    template: FunctionType,
    lane: Lane,
    signature: Any,
    key: tuple[int, ...],
    *,
    about: str = "a kernel, about 1 s, once",
    nogil: bool = True,
    **choices: Any,
) -> Any:
    """Link and compile ``template`` for one signature, and store it on disk under a name that carries ``key``.

    People who wait for it are shown ``about``. Other threads run at the same time, unless ``nogil`` is False: then a call is
    one step for them.
    """
    function = bind(template, lane, choices)
    name = "_".join(map(str, (template.__module__.rpartition(".")[2], template.__name__, *key)))
    function.__qualname__ = f"{name}_{_FINGERPRINT:08x}"
    options = {
        "nogil": nogil,
        "no_cfunc_wrapper": True,
        "error_model": "numpy",
        "fastmath": _REORDERED,
    }
    function.__globals__.update(_BUILTINS)
    kernel = njit(**options, pipeline_class=_KernelCompiler)(function)
    if not config.DISABLE_JIT:
        with _collect_seldom(), _remember_operators(), ExitStack() as stack:
            notice = show_progress(f"compiling {about}", is_notice=True)
            kernel._cache = _KernelCache(name, notice, stack)
            kernel.compile(signature)
        kernel.disable_compile()
    return kernel


@contextmanager
def _collect_seldom() -> Iterator[None]:
    """Let Python look for garbage less often for a while."""
    before = gc.get_threshold()
    gc.set_threshold(max(GARBAGE_THRESHOLD, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _remember_operators() -> Iterator[None]:
    """Let Numba find the type of an operation on numbers once, for a while.

    For each ``+`` of two numbers it would try all that it knows of operators: loops over arrays, then strings, lists and sets.
    """
    context = cpu_target.typing_context
    find = context.resolve_function_type

    def resolve(function: Any, arguments: Any, named: Any) -> Any:
        if (
            named
            or getattr(getattr(function, "typing_key", None), "__module__", None)
            != add.__module__
        ):
            return find(function, arguments, named)
        if (function, arguments) not in _FOUND:
            _FOUND[function, arguments] = find(function, arguments, named)
        return _FOUND[function, arguments]

    context.resolve_function_type = resolve
    try:
        yield
    finally:
        del context.resolve_function_type


_FOUND: dict[Any, Any] = {}


@cache
def _name_runtime() -> None:
    """Tell LLVM where the functions of Numba's runtime are, which stored kernels call; all else they bring along."""
    for name, address in _nrt_python.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _load_without_blas() -> None:
    """Load what Numba knows of arrays, without the SciPy modules that it imports just to see that they are there."""
    import numba.np.linalg as linear_algebra

    find = linear_algebra.ensure_blas
    linear_algebra.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linear_algebra.ensure_blas = find


def describe_target() -> dict[str, str]:
    """Describe what compiled code depends on, besides our sources: Numba's version, and the CPU it compiles for."""
    _, name, features = kernel_context().codegen().magic_tuple()
    present = [feature[1:] for feature in features.split(",") if feature.startswith("+")]
    return {"numba": numba_version, "cpu": " ".join([name, *present])}


def cache_folder() -> Path:
    """Return the folder of compiled kernels: KLAZY_CACHE_DIR, or klazy's place in the user's cache folder.

    NUMBA_CACHE_DIR does not count: it is often a folder of many users, and kernels are code.
    """
    if os.environ.get("KLAZY_CACHE_DIR"):
        return Path(os.environ["KLAZY_CACHE_DIR"])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "klazy"


def make_cache_folder(*inner: str) -> Path:
    """Make the cache folder, or one in it, for this user alone, and check that no other user can write to it."""
    folder = cache_folder()
    for part in ("", *inner):
        folder = folder / part
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_trust(folder.stat(), folder)
    return folder


def _require_trust(about: os.stat_result, path: Path) -> None:
    """Raise PermissionError for what another user owns or can write to: code in it would run as this user.

    The superuser may own it, as in an image or on a cluster. Windows knows no such modes.
    """
    reason = None
    if hasattr(os, "geteuid") and about.st_uid not in (0, os.geteuid()):
        reason = "it belongs to another user"
    elif hasattr(os, "geteuid") and about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        reason = "other users can write to it, which chmod go-w would end"
    if reason is not None:
        raise PermissionError(errno.EPERM, reason, str(path))


class _KernelCache(caching.NullCache):
    """Where Numba looks for a kernel before it compiles it, also in the pack, and leaves it afterwards.

    Each kernel has one file for each kind of processor. The file begins with a digest of the rest, so a damaged one is noticed,
    compiled anew and replaced. Where nothing can be written, or others can write, a kernel lives as long as its process.

    A missing kernel is announced by ``notice``, and its turn to be compiled ends with ``stack``.
    """

    def __init__(self, name: str, notice: AbstractContextManager[Any], stack: ExitStack) -> None:
        self._name = name
        self._notice = notice
        self._stack = stack

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel, or None if none is found that is sound, and it is for this process to compile it."""
        _name_runtime()
        file = self._name_file(sig)
        content = _read_kernel(file)
        if content is None:
            self._stack.enter_context(self._notice)
            self._stack.enter_context(_take_turn(file))
            content = _read_kernel(file)
        if content is None:
            _load_without_blas()
            target_context.refresh()
            return None
        return CompileResult._rebuild(kernel_context(), *pickle.loads(content))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a kernel for later processes; warn if that fails."""
        try:
            path = cache_folder() / self._name_file(sig)
        except RuntimeError as error:
            _warn_unkept(str(error))
            return
        # Numba would add the sources with the type of every name, as text.
        content = caching.dumps(data._replace(type_annotation="")._reduce())
        try:
            _replace_file(path, _add_checksum(content))
        except OSError as error:
            _warn_unkept(f"{path.parent}: {error.strerror}")
        else:
            _forget_older(path.parent, self._name)

    def _name_file(self, sig: Any) -> str:
        """Name the file of this kernel for this processor, this Python and this Numba."""
        target = kernel_context().codegen().magic_tuple()
        kind = repr((sig, target, sys.implementation.cache_tag, numba_version))
        digest = sha256(kind.encode()).hexdigest()[:16]
        return f"kernel.{self._name}_{_FINGERPRINT:08x}-{digest}.nbc"


@contextmanager
def _take_turn(name: str) -> Iterator[None]:
    """Wait while another process compiles the kernel of this file, which is then stored; others wait until the block ends.

    Where files cannot be locked, and after LONGEST_TURN, there is no waiting.
    """
    lock = None
    with suppress(OSError, RuntimeError):
        path = make_cache_folder() / f"{name}.lock"
        until = time.monotonic() + LONGEST_TURN
        while lock is None and time.monotonic() < until:
            try:
                lock = lock_file(path, wait=False)
            except BlockingIOError:
                time.sleep(GLANCE)
    try:
        yield
    finally:
        if lock is not None:
            path.unlink(missing_ok=True)
            lock.close()


LONGEST_TURN = 60.0  # seconds; a process that takes longer has been stopped


def _read_kernel(name: str) -> bytes | None:
    """Return what a kernel's file has, from the user's folder or else from the pack; None if neither has a sound one."""
    folders = []
    with suppress(RuntimeError):  # pathlib raises it where there is no home
        folders.append(cache_folder())
    pack = find_pack()
    if pack is not None and pack.level is not None:
        folders.append(pack.folder / pack.level)
    for folder in folders:
        with suppress(OSError):
            content = _verify_checksum(_read_trusted(folder / name))
            if content is not None:
                return content
    return None


def _add_checksum(content: bytes) -> bytes:
    return sha256(content).digest() + content


def _verify_checksum(sealed: bytes) -> bytes | None:
    """Return the content behind its checksum, or None if a byte of it changed."""
    size = sha256().digest_size
    content = sealed[size:]
    if sha256(content).digest() != sealed[:size]:
        return None
    return content


def _read_trusted(path: Path) -> bytes:
    """Read a file of the cache; warn and raise PermissionError if another user may have planted it."""
    _require_trust(
        path.parent.stat(), path.parent
    )  # The cause is reported when a kernel is stored.
    with path.open("rb") as file:
        try:
            _require_trust(os.fstat(file.fileno()), path)
        except PermissionError as foreign:
            _warn_foreign(path.parent, f"{path}: {foreign.strerror}")
            raise
        return file.read()


def _replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step, also if several processes do so at once; one that fails leaves nothing behind."""
    make_cache_folder()
    unfinished = path.with_name(f"{path.stem}.{uuid4().hex}.nbp")
    try:
        made = os.open(
            unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o644
        )
        with open(made, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@cache
def _warn_unkept(reason: str) -> None:
    """Warn why kernels are not stored, once in a process."""
    warnings.warn(
        f"klazy cannot keep compiled kernels ({reason}), so every process compiles them again, which takes seconds; "
        f"{CACHE_REMEDY}.",
        RuntimeWarning,
        stacklevel=2,
    )


_WARNED: set[Path] = set()


def _warn_foreign(folder: Path, reason: str) -> None:
    """Warn that a kernel is not used, once for a folder."""
    if folder not in _WARNED:
        _WARNED.add(folder)
        words = "klazy ignores a compiled kernel that may not be its own"
        warnings.warn(f"{words} ({reason}), and compiles it again.", RuntimeWarning, stacklevel=2)


def _forget_older(folder: Path, name: str) -> None:
    """Remove old files of this kernel that other sources compiled; recent ones may still be in use."""
    for file in folder.glob(f"*.{name}_????????-*.nb?"):
        is_ours = f"{name}_{_FINGERPRINT:08x}-" in file.name
        with suppress(OSError):  # another process removed it, or it is another user's
            if not is_ours and time.time() - file.stat().st_mtime > _STALE:
                file.unlink()


# ---- kernels that were compiled elsewhere

PACK = "klazy_kernels"  # the package of them; scripts/kernels.py makes it
ABOUT = "about.json"


class Pack(NamedTuple):
    """An installed package of kernels: its folder, the level whose kernels this process uses, or why it uses none."""

    folder: Path
    level: str | None
    obstacle: str | None


def describe_making() -> dict[str, str]:
    """Describe what kernels are made with, and made for: those that were made otherwise cannot be used."""
    triple, *_ = cpu_target.target_context.codegen().magic_tuple()
    return {
        "klazy's sources": f"{_FINGERPRINT:08x}",
        "Python": str(sys.implementation.cache_tag),
        "Numba": numba_version,
        "system": triple,
    }


@cache
def find_pack() -> Pack | None:
    """Find the installed package of kernels and the best of its levels; None if there is no such package."""
    spec = find_spec(PACK)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0])
    try:
        made = dict(json.loads(_read_trusted(folder / ABOUT)))
    except OSError as failed:
        return Pack(folder, None, f"{failed.filename}: {failed.strerror}")
    except (TypeError, ValueError):
        return Pack(folder, None, f"{ABOUT} is damaged")
    for name, value in describe_making().items():
        if made.get(name) != value:
            return Pack(
                folder, None, f"they are for {name} {made.get(name)}, and this is {value}"
            )
    for level in list_levels():
        if (folder / level).is_dir():
            return Pack(folder, level, None)
    return Pack(folder, None, "none are for this processor, or NUMBA_CPU_NAME names another")


@cache
def kernel_context() -> Any:
    """Return what kernels are compiled in. With a pack, they are compiled for its level.

    A run and an agent must round alike, and one of their kernels may be in the pack while the other is not.
    """
    pack = find_pack()
    return make_context(None if pack is None else pack.level)


# ---- what a user may see and clear

# The names that _KernelCache gives; the folder may hold other things, too.
_KERNEL_FILES = "kernel.*_????????-????????????????"


def list_kernels(*, current: bool = False) -> list[Path]:
    """List the files of all stored kernels, or only those that these sources made."""
    pattern = _KERNEL_FILES
    if current:
        pattern = f"kernel.*_{_FINGERPRINT:08x}-????????????????"
    return sorted(cache_folder().glob(f"{pattern}.nbc"))


def clear_kernels() -> int:
    """Remove all stored kernels and return their number; processes that have loaded them go on.

    What another process is writing at this moment stays.
    """
    removed = 0
    for file in list_kernels():
        with suppress(FileNotFoundError):  # another process was quicker
            file.unlink()
            removed += 1
    # A killed process leaves these behind.
    unfinished = [*cache_folder().glob(f"{_KERNEL_FILES}.*.nbp")]
    unfinished += cache_folder().glob(f"{_KERNEL_FILES}.nbc.lock")
    for file in unfinished:
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _ABANDONED:
                file.unlink()
    return removed


_ABANDONED = 3600.0  # seconds


def find_cache_obstacle() -> str | None:
    """Return why no kernel can be stored, found out by storing something; None if one can."""
    try:
        trial = cache_folder() / f"trial.{uuid4().hex}"
        _replace_file(trial, b"klazy")
        trial.unlink()
    except (OSError, RuntimeError) as failed:  # pathlib raises the latter where there is no home.
        return getattr(failed, "strerror", None) or str(failed)
    return None
