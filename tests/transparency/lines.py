"""Command lines that have nothing to do with keepfit: each has to do the same with it.

`Line.words` is executed as it is; `{python}` is this environment's interpreter. A line that is a shell script is
written as such. What may differ is named, and must be in the table of differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PY = "{python}"


@dataclass(frozen=True)
class Line:
    name: str
    words: tuple[str, ...]
    differs: tuple[str, ...] = ()
    how: str = "pipes"  # pipes | merged | terminal | file | null
    stdin: bytes | None = b""  # None: closed
    files: dict[str, str] = field(default_factory=dict)  # in its working directory
    environment: dict[str, str] = field(default_factory=dict)
    shell_before: str = ""  # of the shell that starts it: traps, limits, descriptors
    needs: str = ""  # a program


def sh(name: str, script: str, *differs: str, **more: object) -> Line:
    return Line(name, ("sh", "-c", script), differs, **more)  # type: ignore[arg-type]


def bash(name: str, script: str, *differs: str, **more: object) -> Line:
    return Line(name, ("bash", "-c", script), differs, needs="bash", **more)  # type: ignore[arg-type]


def py(name: str, code: str, *differs: str, flags: tuple[str, ...] = (), **more: object) -> Line:
    return Line(name, (PY, *flags, "-c", code), differs, **more)  # type: ignore[arg-type]


def script(name: str, code: str, *differs: str, flags: tuple[str, ...] = (), **more: object) -> Line:
    """The same as a file, script.py."""
    files = {"script.py": code, **more.pop("files", {})}  # type: ignore[dict-item]
    return Line(name, (PY, *flags, "script.py"), differs, files=files, **more)  # type: ignore[arg-type]


ENDINGS = [
    Line("true", ("true",)),
    Line("false", ("false",)),
    *(sh(f"status {n}", f"exit {n}") for n in (2, 3, 64, 70, 77, 126, 127, 128, 130, 137, 255)),
    *(
        bash(f"ends by {name}", f"ulimit -c 0; kill -{name} $$")
        for name in ("TERM", "INT", "HUP", "KILL", "QUIT", "PIPE", "USR1", "USR2", "ALRM", "SEGV", "ABRT", "FPE", "BUS",
                     "ILL", "TRAP", "XCPU", "XFSZ", "VTALRM", "PROF", "IO", "SYS", "RTMIN", "RTMIN+3", "RTMAX")
    ),
    Line("not there", ("./no/such/program",), ("start",), shell_before=":"),
    Line("not on PATH", ("no-such-program",), ("start",), shell_before=":"),
    Line("a directory", ("/etc",), ("start",), shell_before=":"),
    Line("no right to execute", ("./data",), ("start",), files={"data": "text"}, shell_before=":"),
    Line("a script that names no interpreter", ("./run", "x"), files={"run": 'echo ran "${0##*/}" "$@"\n'}, shell_before=":"),
    Line("a script with an interpreter", ("./run", "a b"), files={"run": '#!/bin/sh\necho ran "$0" "$1"\n'}),
    Line("a script whose interpreter is not there", ("./run",), ("start",), files={"run": "#!/no/such\n"}, shell_before=":"),
    sh("a child that is killed", "sh -c 'kill -9 $$'; echo $?"),
    sh("exec of another", "exec sh -c 'exit 9'"),
]  # fmt: skip

BYTES = [
    sh("nothing", ":"),
    sh("one line", "echo hello"),
    sh("no line end", "printf 'no newline'"),
    sh("stderr alone", "echo to stderr >&2"),
    sh("both", "echo out; echo err >&2; echo out again"),
    sh("both into one pipe", "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done", how="merged"),
    sh("both into one file", "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done", how="file"),
    sh("all bytes", "awk 'BEGIN{for(i=0;i<256;i++) printf \"%c\", i}' </dev/null; printf '\\000\\377\\376'"),
    sh("not UTF-8", "printf '\\303\\050\\240\\241\\n'"),
    sh("carriage returns", "for i in 1 2 3; do printf '\\r%d/3' $i; done; echo"),
    sh("escape sequences", "printf '\\033[31mred\\033[0m \\033]0;title\\007\\n'"),
    sh("a megabyte", "head -c 1000000 /dev/zero | tr '\\0' x"),
    sh("ten megabytes in lines", "yes 'a line of some letters, and then some more' | head -c 10000000"),
    sh("megabytes on both", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"),
    sh("a line of a megabyte", "head -c 1000000 /dev/zero | tr '\\0' y; echo"),
    sh("stdin back", "cat", stdin=b"some\nlines\0and bytes\xff" * 1000),
    sh("stdin not read", "echo done", stdin=b"x" * 200_000),
    sh("stdin in part", "head -n 1", stdin=b"first\nsecond\n" * 10_000),
    sh("stdin closed", "cat; echo $?", stdin=None),
    sh("sorted", "sort", stdin=b"b\na\nc\n"),
    sh("a pipeline", "printf '3\\n1\\n2\\n' | sort -n | tail -n 1"),
    sh("a reader that leaves", "yes | head -n 1"),
    sh("output into a file of its own", "echo result > out.txt; cat out.txt"),
    sh("nobody reads", "echo x", how="null"),
    sh("the kind of stdout", f"{PY} -S -c 'import os, stat; s = os.fstat(1).st_mode; "
       "print(\"kind of stdout:\", \"file\" if stat.S_ISREG(s) else \"pipe\")'", "kind", how="file"),
    sh("descriptors of its own", "exec 3>out.txt 4<&0; echo three >&3; read -r line <&4; echo $line", stdin=b"four\n"),
    Line("an argument for everything", ("printf", "<%s>\n", "", "a b", "'", '"', "\n", "*", "$HOME", "--", "-x", "é", "~")),
    Line("an option that looks like ours", ("echo", "--memory", "3GiB", "--", "run")),
]  # fmt: skip

SURROUNDINGS = [
    sh("environment", "env | sort", "variables", "unbuffered", "hash seed"),
    sh("names that a shell cannot have", "env | grep 'odd'", environment={"odd.name": "1", "odd-too": "x y", "odd": "=="}),
    sh("a variable that is empty", 'echo "[${EMPTY+set}]"', environment={"EMPTY": ""}),
    sh("a variable of many lines", 'printf "%s" "$LINES_"', environment={"LINES_": "a\nb\n\n"}),
    sh("a variable that is no UTF-8", 'printf "%s" "$ODD" | od -c', environment={"ODD": "\udcff\udc80"}),
    sh("PWD and its kin", 'echo "$PWD $OLDPWD $SHLVL $_ $LC_CTYPE $LANG"'),
    Line("no environment", ("env", "-i", "env")),
    sh("C locale", "env | grep -c '^LC_\\|^LANG'; locale 2>/dev/null | head -n 2", environment={"LANG": "", "LC_ALL": ""}),
    bash("functions in a large environment", "myf; echo ${#BIG} ${#BIG2}", environment={
        "BIG": "a" * 100_000, "BIG2": "b" * 130_000, "BASH_FUNC_myf%%": "() {  echo from the function\n}"}),
    sh("working directory", "pwd"),
    sh("umask", "umask; umask 077; touch made; ls -l made | cut -c1-10"),
    sh("limits", "ulimit -a"),
    sh("niceness", "nice"),
    sh("who", "id -u; id -g; id -G"),
    sh("groups of processes", "ps -o pgid= -p $$ | tr -d ' ' | grep -c ."),
    sh("score for the kernel", "cat /proc/self/oom_score_adj"),
    sh("cgroup", "cat /proc/self/cgroup"),
    sh("scheduling", "cat /proc/self/sched | head -n 1 | cut -d'(' -f1; chrt -p $$ 2>/dev/null | cut -d: -f2"),
    sh("descriptors", "ls /proc/self/fd | tr '\\n' ' '"),
    bash("what is ignored and held back", "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status"),
    bash("SIGPIPE ignored", "trap '' TERM; grep SigIgn /proc/self/status", shell_before="trap '' PIPE"),
    bash("SIGHUP ignored", "kill -HUP $$; echo alive", shell_before="trap '' HUP"),
    bash("SIGXFSZ ignored", "grep SigIgn /proc/self/status", shell_before="trap '' XFSZ"),
    bash("many ignored", "grep SigIgn /proc/self/status", shell_before="trap '' INT QUIT USR1 USR2 PIPE HUP TERM RTMIN"),
    bash("a descriptor that comes along", "echo to three >&3", shell_before="exec 3>three.txt"),
    bash("a pipe that comes along", "echo through >&7", shell_before="exec 7> >(cat > seven.txt)"),
    bash("few files", "ulimit -n; ulimit -Hn", shell_before="ulimit -Sn 64"),
    bash("very few files", "ulimit -n; echo x > a", shell_before="ulimit -n 16"),
    bash("no files of any size", "echo into a pipe", shell_before="ulimit -f 0"),
    bash("little stack", "ulimit -s", shell_before="ulimit -s 4096"),
    bash("no core", "ulimit -c", shell_before="ulimit -c 0"),
    bash("an odd umask", "umask; touch made; ls -l made | cut -c1-10", shell_before="umask 0777"),
    sh("size of a pipe", f"{PY} -c 'import fcntl; print(\"pipe holds\", fcntl.fcntl(1, 1032))'", "pipes"),
]  # fmt: skip

PROCESSES = [
    sh("in the background", "sh -c 'echo child' & wait; echo parent"),
    sh("a daemon", "setsid sh -c 'sleep 3; echo late > late.txt' >/dev/null 2>&1 </dev/null & echo started"),
    sh("a daemon that holds the output", "setsid sh -c 'sleep 0.3; echo from the daemon' & echo started"),
    sh("nohup", "nohup sh -c 'echo through nohup' 2>/dev/null"),
    sh("ends its group", "sh -c 'trap \"echo told; exit 4\" TERM; kill 0; sleep 1'"),
    bash("a trap at the end", "trap 'echo bye' EXIT; exit 6"),
    bash("a trap for a signal", "trap 'echo got it; exit 8' USR1; kill -USR1 $$; sleep 5"),
    sh("timeout", "timeout 0.2 sleep 5; echo $?"),
    sh("xargs", "printf 'a b c' | xargs -n 1 echo item"),
    sh("find", "touch x1 x2; find . -name 'x*' -exec echo {} ';' | sort"),
    sh("parent", f"{PY} -S -c 'import os; print(\"parent:\", os.getppid())'", "parent"),
    Line("make", ("make", "-s", "all"), files={"Makefile": "all: one two\n\t@echo all $^\none two:\n\t@echo $@\n"}, needs="make"),
    Line("make that fails", ("make", "all"), files={"Makefile": "all:\n\t@exit 3\n"}, needs="make"),
    Line("make -j", ("make", "-sj4", "all"), files={"Makefile": "all: a b c\n\t@echo all\na b c:\n\t@:\n"}, needs="make"),
    Line("git", ("git", "--version"), needs="git"),
    Line("perl", ("perl", "-e", 'print "from perl $0\\n"; exit 5'), needs="perl"),
    Line("awk", ("awk", "BEGIN { print 6 * 7; exit 3 }")),
    Line("dd", ("dd", "if=/dev/zero", "of=zeros", "bs=1k", "count=3", "status=none")),
    Line("tar", ("sh", "-c", "echo content > f; tar cf - f | tar tf -")),
    Line("node", ("node", "-e", "console.log([1,2].map(x => x * 2)); process.exit(7)"), needs="node"),
    bash("jobs", "set -m; sleep 0.05 & jobs | wc -l; wait; echo $?"),
    bash("a loop of children", "for i in 1 2 3 4 5; do (exit $i); echo $?; done"),
    bash("pipefail", "set -o pipefail; false | true; echo $?"),
]  # fmt: skip

OWN_NAMES = ("token", "keyword", "typing", "json", "random", "types", "signal", "queue", "statistics", "resource")

PYTHON = [
    py("hello", "print('hello')"),
    py("arguments", "import sys; print(sys.argv, sys.flags, sys.orig_argv[1:2])"),
    py("path", "import sys; print(sys.path, sys.prefix, sys.executable, sys.path_importer_cache.keys())"),
    py("modules", "import sys; print(sorted(sys.modules))"),
    py("importers", "import sys; print('importers:', *(getattr(f, '__name__', type(f).__name__) for f in sys.meta_path))",
       "import hook"),
    script("a file", "import sys; print(__name__, __file__, sys.argv, sys.path[0])"),
    script("a file with its own name for everything",
           "import sys\n" + "".join(f"import {n}; print({n}.__file__)\n" for n in OWN_NAMES) + "print(sorted(sys.modules))\n",
           files={f"{n}.py": f"print('my own {n}')\nTypeVar = None\n" for n in OWN_NAMES if n != "types"}
           | {"types.py": "print('my own types')\n"}),
    script("a framework that fails", "import torch", files={"torch/__init__.py": "import json\nraise RuntimeError('broken')"}),
    script("a framework that is asked for nothing", "import jax",
           files={"jax/__init__.py": "def __getattr__(name):\n    print('asked', name)\n    raise AttributeError(name)"}),
    script("its own names, and an error", "import token, linecache2", files={"token.py": "", "linecache.py": "print('mine')"}),
    Line("a module", (PY, "-m", "pkg.mod", "x"), files={"pkg/__init__.py": "", "pkg/mod.py": "import sys; print(sys.argv)"}),
    Line("from stdin", (PY, "-"), stdin=b"print('from stdin')\n"),
    Line("from stdin without a word", (PY,), stdin=b"import sys; print(sys.argv)\n"),
    Line("a library's module", (PY, "-m", "json.tool"), stdin=b'{"a": [1, 2]}'),
    Line("timeit's usage", (PY, "-m", "timeit", "-n", "1", "-r", "1", "-u", "parsec", "pass")),
    *(py(f"with {flag}", "import sys; print(sys.flags, sys.path, sorted(sys.modules))", flags=(flag,))
      for flag in ("-S", "-I", "-E", "-s", "-B", "-O", "-OO", "-X", "-q", "-v")[:5]),
    py("with -O", "assert False; print(__debug__)", flags=("-O",)),
    py("with -W error", "import warnings; warnings.warn('w')", flags=("-W", "error")),
    py("with -X dev", "import sys; print(sys.flags.dev_mode)", flags=("-X", "dev")),
    py("with -X utf8", "import sys; print(sys.stdout.encoding, sys.flags.utf8_mode)", flags=("-X", "utf8")),
    py("PYTHONPATH", "import sys; print(sys.path[1:3]); import mine", environment={"PYTHONPATH": "lib:/nowhere"},
       files={"lib/mine.py": "print('mine')"}),
    py("PYTHONPATH of the standard library's names", "import statistics", environment={"PYTHONPATH": "lib"},
       files={"lib/statistics.py": "print('mine')", "lib/argparse.py": "1/0"}),
    Line("PYTHONPATH, and no Python at all", ("/bin/echo", "hi"), environment={"PYTHONPATH": "lib"},
         files={"lib/statistics.py": "raise SystemExit(9)", "lib/sitecustomize.py": "raise SystemExit(8)"}),
    sh("PYTHONHOME", f"{PY} -c 'print(1)' 2>&1 | grep Fatal", environment={"PYTHONHOME": "/nonexistent"}),
    Line("PYTHONHOME, and no Python", ("echo", "hi"), environment={"PYTHONHOME": "/nonexistent"}),
    py("PYTHONINSPECT", "print('once')", environment={"PYTHONINSPECT": "1"}, stdin=b"print('typed')\n"),
    py("PYTHONSTARTUP", "print('main')", environment={"PYTHONSTARTUP": "start.py"}, files={"start.py": "print('startup')"}),
    py("PYTHONDONTWRITEBYTECODE", "import sys; print(sys.dont_write_bytecode)", environment={"PYTHONDONTWRITEBYTECODE": "1"}),
    py("PYTHONWARNINGS", "import warnings; warnings.warn('w', DeprecationWarning)", environment={"PYTHONWARNINGS": "error"}),
    py("sitecustomize", "import sys; print('main', 'sitecustomize' in sys.modules)", environment={"PYTHONPATH": "lib"},
       files={"lib/sitecustomize.py": "print('site', __file__)"}),
    py("sitecustomize that fails", "print('main')", environment={"PYTHONPATH": "lib"},
       files={"lib/sitecustomize.py": "1/0"}),
    py("usercustomize", "print('main')", environment={"PYTHONPATH": "lib"}, files={"lib/usercustomize.py": "print('user')"}),
    py("a working directory with names", "import os; print('fine')", files={"os.py": "1/0", "site.py": "1/0", "ast.py": "1/0"},
       flags=("-P",)),
    py("an exception", "def f(): raise ValueError('text é')\nf()"),
    script("an exception from another", "try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise RuntimeError('outer') from e\n"),
    script("a syntax error", "def f(:\n"),
    script("an import that fails", "import no_such_module_anywhere\n"),
    script("an import that fails inside", "import mine\n", files={"mine.py": "import gone_from_here\n"}),
    *(py(f"sys.exit {value}", f"import sys; sys.exit({value})") for value in ("0", "3", "None", "'text'", "-1", "[]")),
    py("os._exit", "import os; print('x', flush=True); os._exit(5)"),
    py("os.abort", "import resource, os; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()"),
    py("KeyboardInterrupt by raise", "raise KeyboardInterrupt"),
    py("SIGINT to itself", "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(5)"),
    py("SIGINT handled", "import os, signal\ntry: os.kill(os.getpid(), 2); import time; time.sleep(5)\n"
       "except KeyboardInterrupt: print('caught')"),
    py("SIGTERM to itself", "import os; os.kill(os.getpid(), 15)"),
    py("handlers of signals", "import signal; print([(int(s), str(signal.getsignal(s))) for s in signal.valid_signals() "
       "if s not in (9, 19, 32, 33)])"),
    py("a signal with a value", "import os, signal\nsignal.pthread_sigmask(0, {40}); import ctypes\n"
       "ctypes.CDLL(None).sigqueue(os.getpid(), 40, ctypes.c_void_p(77)); i = signal.sigwaitinfo({40})\n"
       "print(i.si_signo, i.si_code)"),
    py("the stacks signal", "import signal; print('stacks signal:', signal.getsignal(signal.SIGRTMAX - 4))"),
    py("faulthandler", "import faulthandler; print('faulthandler:', faulthandler.is_enabled())", "stacks"),
    sh("faulthandler of its own", f"{PY} -c 'import faulthandler as f; f.enable(); f.dump_traceback()' 2>&1 | sed 's/0x[0-9a-f]*//'"),
    py("the end", "import atexit; atexit.register(print, 'bye'); print('main')"),
    py("the end after an error", "import atexit; atexit.register(print, 'bye'); 1/0"),
    py("threads", "import threading as t; x = [t.Thread(target=print, args=(i,)) for i in range(3)]\n"
       "for y in x: y.start(); y.join()\nprint(t.active_count())"),
    py("a thread that fails", "import threading; t = threading.Thread(target=lambda: 1/0); t.start(); t.join()"),
    py("excepthook", "import sys; sys.excepthook = lambda *a: print('hooked', a[0].__name__); 1/0"),
    py("hooks that are there", "import sys, threading; print(sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile())"),
    py("settrace", "import sys\nseen = set()\ndef tr(f, e, a): seen.add(f.f_code.co_filename); return tr\n"
       "sys.settrace(tr)\nimport json, colorsys\njson.dumps({})\nsys.settrace(None)\n"
       "print(any('keepfit/agent' in s or '_keepfit' in s for s in seen))"),
    Line("cProfile", (PY, "-c", "import cProfile, pstats, io\np = cProfile.Profile(); p.enable(); import colorsys, sndhdr; p.disable()\n"
         "print(any('keepfit/agent' in str(k) or '_keepfit' in str(k) for k in pstats.Stats(p).stats))")),
    Line("-X importtime", ("sh", "-c", f"{PY} -X importtime -c pass 2>&1 | sed 's/time: .*| */time: x | /'"), ("import hook",)),
    py("importtime is short", "pass"),
    py("stdout", "import sys; print(sys.stdout.encoding, sys.stdout.isatty(), sys.stderr.errors, sys.stdin.encoding)"),
    py("both into one pipe, with print", "import sys; print('a'); print('b', file=sys.stderr); print('c')", "order", how="merged"),
    py("both, unbuffered", "import sys; print('a'); print('b', file=sys.stderr); print('c')", how="merged", flags=("-u",)),
    py("input", "print(input('name? '))", stdin=b"somebody\n"),
    py("input at its end", "input()"),
    py("descriptors of Python", "import os; print(*os.listdir('/proc/self/fd'), sep='\\n')", "descriptors"),
    py("closerange and a file", "import os; os.closerange(3, 256); f = open('results.csv', 'w'); g = open('other.csv', 'w')\n"
       "f.write('a,b\\n'); f.close(); import random; print(open('results.csv').read())"),
    py("closerange and a crash", "import os, resource; resource.setrlimit(4, (0, 0)); os.closerange(3, 256)\n"
       "f = [open(f'{i}.csv', 'w') for i in range(40)]; os.kill(os.getpid(), 11)"),
    py("closes all it can", "import os; os.closerange(3, os.sysconf('SC_OPEN_MAX')); f = [open(f'{i}.csv', 'w') for i in range(40)]\n"
       "import random; 1/0"),
    py("as many files as it may", "n = []\ntry:\n  while True: n.append(open('/dev/null'))\nexcept OSError as e: print(len(n), e.errno)",
       shell_before="ulimit -Sn 100"),
    py("as many files as there can be", "n = []\ntry:\n  while True: n.append(open('/dev/null'))\nexcept OSError as e: print(len(n), e.errno)",
       shell_before="ulimit -n 60"),
    *(script(f"multiprocessing by {how}", "import multiprocessing as mp\ndef f(x): return x * x\n"
             f"if __name__ == '__main__':\n  with mp.get_context('{how}').Pool(2) as p: print(p.map(f, range(5)))\n")
      for how in ("fork", "spawn", "forkserver")),
    script("a process pool", "from concurrent.futures import ProcessPoolExecutor as P\nimport math\n"
           "if __name__ == '__main__':\n  with P(2) as p: print(list(p.map(math.sqrt, [4, 9])))\n"),
    py("subprocess", "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.path[0:1], "
       "sorted(sys.modules)); sys.exit(4)'], capture_output=True))"),
    py("subprocess without an environment", "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(7)'], "
       "env={}, capture_output=True))"),
    py("fork", "import os\nif os.fork() == 0: print('child', flush=True); raise SystemExit(3)\nprint(os.wait()[1])"),
    py("fork and an error", "import os\nif os.fork() == 0: 1/0\nprint(os.wait()[1])"),
    py("exec", "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(\"again\")'])"),
    py("asyncio", "import asyncio\nasync def f(): await asyncio.sleep(0); return 5\nprint(asyncio.run(f()))"),
    py("signal.set_wakeup_fd", "import signal; print(signal.set_wakeup_fd(-1))"),
    py("logging", "import logging; logging.warning('w'); logging.getLogger('x').error('e', exc_info=ValueError('v'))"),
    py("tracemalloc", "import tracemalloc; tracemalloc.start(); x = [0] * 9; print(tracemalloc.is_tracing())"),
    py("gc", "import gc; print(gc.isenabled(), gc.get_threshold(), gc.callbacks)"),
    py("recursion", "import sys; print(sys.getrecursionlimit(), sys.getswitchinterval())"),
    py("a seed of one's own", "import random; random.seed(5); print(random.random())"),
    py("a hash seed of one's own", "print(hash('a'))", environment={"PYTHONHASHSEED": "7"}),
    py("pickle", "import pickle; print(pickle.loads(pickle.dumps({'a': 1})))"),
    py("unittest", "import unittest\nclass T(unittest.TestCase):\n  def test(self): self.assertEqual(1, 2)\n"
       "import io; r = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T)); print(r.failures[0][1])"),
    Line("doctest", (PY, "-m", "doctest", "script.py"), files={"script.py": '"""\n>>> 1 + 1\n3\n"""\n'}),
    Line("pdb", (PY, "-m", "pdb", "script.py"), files={"script.py": "x = 1\ny = 2\n"}, stdin=b"n\nn\np x\nq\n"),
    Line("zipped", ("sh", "-c", f"{PY} -m zipapp app -m 'run:main' && {PY} app.pyz"), files={"app/run.py": "def main(): print('zip')"}),
    Line("py_compile", (PY, "-m", "py_compile", "script.py"), files={"script.py": "x ="}),
]  # fmt: skip

TERMINAL = [
    sh("in a terminal", "test -t 0 && test -t 1 && test -t 2 && echo all three", how="terminal"),
    sh("its settings", "stty -a | sed 's/speed [0-9]* baud//'", how="terminal"),
    sh("its size", "stty size", how="terminal"),
    sh("its name", "tty", "terminal", how="terminal"),
    sh("bytes in a terminal", "printf 'a\\tb\\r\\n\\033[1mbold\\033[0m\\n'; echo err >&2", how="terminal"),
    sh("a status in a terminal", "exit 7", how="terminal"),
    sh("a signal in a terminal", "kill -TERM $$", how="terminal"),
    sh("typed", "echo ready; read -r line; echo \"got $line\"", how="terminal", stdin=b"ready\r\n>hello\n"),
    sh("typed without echo", "stty -echo; echo ready; read -r line; stty echo; echo \"got $line\"", how="terminal",
       stdin=b"ready\r\n>secret\n"),
    py("a handler for Ctrl-Z", "import signal, sys, time\nsignal.signal(20, lambda *_: (print('met', flush=True), sys.exit(6)))\n"
       "print('ready', flush=True)\ntime.sleep(9)", how="terminal", stdin=b"ready\r\n>\x1a"),
    sh("Ctrl-Z ignored", "trap '' TSTP; echo ready; read -r line; echo $line", how="terminal", stdin=b"ready\r\n>\x1ago on\n"),
    sh("Ctrl-Z where nobody could go on with it", "echo ready; read -r line; echo $line", how="terminal",
       stdin=b"ready\r\n>\x1ago on\n"),
    sh("end of input", "echo ready; cat; echo ended", how="terminal", stdin=b"ready\r\n>one\n\x04"),
    sh("Ctrl-C", "trap 'echo interrupted; exit 5' INT; echo ready; sleep 5", how="terminal", stdin=b"ready\r\n>\x03"),
    sh("Ctrl-C untrapped", "echo ready; sleep 5", how="terminal", stdin=b"ready\r\n>\x03"),
    py("Ctrl-\\", "import signal, sys, time; signal.signal(3, lambda *_: sys.exit(6)); print('ready', flush=True); time.sleep(5)",
       how="terminal", stdin=b"ready\r\n>\x1c"),
    py("Ctrl-C in Python", "print('ready', flush=True); import time; time.sleep(5)", how="terminal", stdin=b"ready\r\n>\x03"),
    py("Python in a terminal", "import sys, os; print(sys.stdout.isatty(), os.get_terminal_size(), os.isatty(0))", how="terminal"),
    py("a session", "import os; print('session leader:', os.getsid(0) == os.getpid())", how="terminal"),
    py("getpass", "import getpass; print(getpass.getpass('? '))", how="terminal", stdin=b"? >secret\n"),
]  # fmt: skip

LINES = [*ENDINGS, *BYTES, *SURROUNDINGS, *PROCESSES, *PYTHON, *TERMINAL]
