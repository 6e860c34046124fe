"""Seccomp: system calls that a reader of files never needs fail from here on. x86-64 and aarch64.

`deny_harm` is for the worker: no sockets, no other programs, no changes of folders, no namespaces, no debugging.
`deny_writing` is for a worker without Landlock, after its imports: torch's open /dev/null.
`deny_processes` is for the child that opens one file: it cannot fork, nor signal anything but itself, either.

A list of what is denied, not of what is allowed: torch and its libraries may use any other call. Landlock and the
namespace are the fences behind it.
"""

import ctypes
import os
import platform
import struct
from typing import Final

__all__ = ["deny_harm", "deny_processes", "deny_writing"]

_TABLE: Final = """
socket 41 198, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242, sendto 44 206,
execve 59 221, execveat 322 281, ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
process_madvise 440 440, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424,
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, open_tree 428 428, move_mount 429 429, fsopen 430 430,
fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, unshare 272 97, setns 308 268,
bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, add_key 248 217, request_key 249 218, keyctl 250 219,
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427,
init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294,
reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89, settimeofday 164 170, clock_settime 227 112,
adjtimex 159 171, clock_adjtime 305 266, sethostname 170 161, setdomainname 171 162, quotactl 179 60,
open_by_handle_at 304 265, name_to_handle_at 303 264, personality 135 92, syslog 103 116, vhangup 153 58,
shmget 29 194, shmat 30 196, msgget 68 186, semget 64 190, mq_open 240 180,
creat 85 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, mkdir 83 -, mkdirat 258 34,
rmdir 84 -, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36, mknod 133 -, mknodat 259 33, chmod 90 -,
fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54,
truncate 76 45, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15,
fremovexattr 199 16, utimensat 280 88, utime 132 -, utimes 235 -, futimesat 261 -
"""
"""System call, its number on x86-64 and on aarch64, where it may be missing."""
_OWN_TABLE: Final = """
fork 57 -, vfork 58 -, tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, setsid 112 157,
setpgid 109 154, recvmsg 47 212, socketpair 53 199
"""
_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the table, the kernel's mark

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_DENIED, _MISSING = _FAIL | 1, _FAIL | 38  # EPERM, ENOSYS
_X32: Final = 0x40000000  # Numbers of x86's third interface begin here
_NUMBER, _MACHINE = 0, 4
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NEW_NAMESPACE, _THREAD = 0x7E020000, 0x00010000
_TYPE_INTO_TERMINAL: Final = 0x5412  # TIOCSTI

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def deny_harm() -> bool:
    """False: no seccomp here, and nothing was denied."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    column = machine[0]
    program = [*_deny_each(_TABLE, column)]
    program += _when(("clone", (56, 220)), column, _argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACE))
    program += _when(("ioctl", (16, 29)), column, _argument(1), (_EQUAL, 0, 1, _TYPE_INTO_TERMINAL))
    for number in (435, 437):  # clone3, openat2: their flags lie in memory; callers fall back to the older calls
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _MISSING)]
    return _install(program, machine)


def deny_writing() -> bool:
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    program = _when(("openat", (257, 56)), machine[0], _argument(2), (_ANY_BIT, 0, 1, _WRITING))
    program += _when(("open", (2, None)), machine[0], _argument(1), (_ANY_BIT, 0, 1, _WRITING))
    return _install(program, machine)


def deny_processes() -> bool:
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    column, own = machine[0], (_EQUAL, 1, 0, os.getpid())
    program = [*_deny_each(_OWN_TABLE, column)]
    program += _when(("clone", (56, 220)), column, _argument(0), (_ANY_BIT, 1, 0, _THREAD))
    for call in (("kill", (62, 129)), ("tgkill", (234, 131))):
        program += _when(call, column, _argument(0), own)
    program += [(_EQUAL, 0, 4, (302, 261)[column]), _argument(0), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _DENIED)]
    program += [(_RETURN, 0, 0, _ALLOW)]  # prlimit64 of this process, which it calls 0
    return _install(program, machine)


def _argument(at: int) -> Instruction:
    """Its lower half: flags, numbers of processes."""
    return _LOAD, 0, 0, 16 + 8 * at


def _deny_each(table: str, column: int) -> list[Instruction]:
    numbers = [line.split()[1 + column] for line in table.replace("\n", " ").split(",")]
    each = [((_EQUAL, 0, 1, int(number)), (_RETURN, 0, 0, _DENIED)) for number in numbers if number != "-"]
    return [step for pair in each for step in pair]


def _when(
    call: tuple[str, tuple[int, int | None]], column: int, load: Instruction, denied_if: Instruction
) -> list[Instruction]:
    """For one call: load an argument, compare; the next instruction denies, the one after it allows."""
    number = call[1][column]
    if number is None:
        return []
    return [(_EQUAL, 0, 4, number), load, denied_if, (_RETURN, 0, 0, _DENIED), (_RETURN, 0, 0, _ALLOW)]


def _install(rules: list[Instruction], machine: tuple[int, int]) -> bool:
    program = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine[1]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _DENIED), *rules, (_RETURN, 0, 0, _ALLOW)]
    packed = b"".join(struct.pack("<HBBI", *step) for step in program)
    steps = ctypes.create_string_buffer(packed, len(packed))
    filter = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    none = ctypes.c_ulong(0)
    if libc.prctl(38, ctypes.c_ulong(1), none, none, none):  # no new privileges: a condition of the next call
        return False
    return bool(libc.prctl(22, ctypes.c_ulong(2), ctypes.c_char_p(filter), none, none) == 0)
