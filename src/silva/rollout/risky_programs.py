"""What a program of a shell line risks: the table behind the built-in rules of `silva.rollout.risks`.

Each kind of risk is told from the program's name and its arguments as the shell would pass them on. What cannot be told
(a program whose name is computed, a shell that is fed what nobody reads here) counts as `unclear`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from silva.tree.actions import Program
from silva.tree.actions.shell import SHELLS, spoken

KINDS = ("delete", "install", "send", "permission", "unclear")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DELETERS = _words(
    "rm rmdir unlink shred truncate srm wipe wipefs mkswap fdisk sfdisk parted dropdb dropuser userdel groupdel"
)
_SYSTEM = "install add upgrade remove uninstall purge dist-upgrade autoremove"
_INSTALLERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(_words("apt apt-get aptitude yum dnf apk brew snap flatpak zypper"), _words(_SYSTEM)),
    **dict.fromkeys(
        _words("pip pip3 pipx gem cargo conda mamba go luarocks"), _words("install uninstall upgrade remove")
    ),
    **dict.fromkeys(_words("npm yarn pnpm bun"), _words("install i add ci uninstall remove rm upgrade")),
    "uv": _words("add pip tool remove sync"),
    "poetry": _words("add install remove"),
    "pacman": _words("-S -Sy -Syu -R -Rs"),
    "dpkg": _words("-i --install -r --remove -P --purge"),
    "rpm": _words("-i -U -e --install --erase"),
    "make": _words("install uninstall"),
}
_SENDERS = _words("scp sftp ftp nc ncat netcat telnet mail mailx sendmail mutt msmtp swaks")
_OWNERS = _words(
    "chown chgrp setfacl sudo su doas passwd chpasswd usermod useradd adduser visudo chattr setcap newgrp pkexec"
)
_READS = _words("-l -L --list")
_BELOW = {"docker", "podman", "kubectl", "helm", "terraform", "aws", "gsutil", "gcloud", "az", "gh", "redis-cli", "npm"}
_DELETES = re.compile(
    r"rm|rmi|rb|prune|destroy|delete(-\S+)?|del|remove|down|flushall|flushdb|unpublish|uninstall|terminate-\S+", re.I
)
_SENDS = {
    "docker": {"push"},
    "podman": {"push"},
    "npm": {"publish"},
    "yarn": {"publish"},
    "cargo": {"publish"},
    "twine": {"upload"},
    "gem": {"push"},
    "gh": {"create", "upload", "comment", "merge"},
    "gsutil": {"cp", "rsync"},
}
_UPLOADS = re.compile(r"-[a-zA-Z]*[dFT].*|--(data.*|form.*|json|upload-file|post-(data|file).*|body-(data|file).*)")
_METHODS = re.compile(r"(-X|--request|--method)[= ]?(POST|PUT|DELETE|PATCH)")
_LOCAL = re.compile(r"(https?://)?(localhost|127\.0\.0\.1|\[::1\])([:/]|$)")
_HARMLESS_PLACES = re.compile(r"/dev/(null|stdout|stderr|tty|fd/\d+)|/tmp/.+|/var/tmp/.+|&?\d+|-")


def kinds_of(program: Program) -> set[str]:
    """The kinds of risk in one program of a line."""
    found = {kind for kind, judge in _JUDGES.items() if judge(program)}
    if program.name in ("python", "python3", "pypy3") and program.arguments[:1] == ("-c",):
        found |= code_kinds(" ".join(program.arguments[1:2]))
    elif program.name in ("python", "python3") and program.given:
        found |= code_kinds(program.given)
    return found


def code_kinds(code: str) -> set[str]:
    """The kinds of risk in Python code: files it removes, and shell lines it runs. Nothing where it is no Python."""
    from silva.tree.actions import programs

    if "(" not in code or len(code) > 200_000:
        return set()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = _dotted(call.func)
        if re.search(r"(^|\.)(rmtree|unlink|rmdir|removedirs)$|^os\.remove$", name):
            found.add("delete")
        elif re.search(
            r"^os\.(system|popen)$|^(subprocess\.)?(run|call|check_call|check_output|Popen|getoutput)$", name
        ):
            for line in _literals(call.args[:1]):
                found |= {kind for program in programs(line) for kind in kinds_of(program)}
        elif re.search(r"^os\.(chmod|chown)$", name):
            found.add("permission")
    return found


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _literals(nodes: Sequence[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.List | ast.Tuple):
            words = [each.value for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            yield " ".join(words)


def _deletes(program: Program) -> bool:
    name, words = program.name, program.arguments
    if name in _DELETERS or name.startswith("mkfs"):
        return not _asks_only(words)
    if name == "find":
        return "-delete" in words
    if name == "git":
        return _git_deletes(_git(words))
    if name == "dd":
        return any(word.startswith("of=") and not _HARMLESS_PLACES.fullmatch(word[3:]) for word in words)
    if name in ("mv", "cp"):
        return bool(words) and (words[-1] == "/dev/null" or (name == "cp" and "/dev/null" in words))
    if name == "crontab":
        return "-r" in words
    if name in ("rsync", "tar"):
        return any(word.startswith(("--delete", "--remove-files", "--remove-source-files")) for word in words)
    if name in _BELOW:
        return any(_DELETES.fullmatch(word) for word in words[:4] if not word.startswith("-"))
    return _empties(program)


def _asks_only(words: Sequence[str]) -> bool:
    return bool(words) and all(word in ("--help", "--version", "-h", *_READS) for word in words)


def _empties(program: Program) -> bool:
    """Whether a redirection empties a file (nothing is written into it), or replaces one of the system's."""
    for operator, file in program.writes:
        if operator in (">>", "&>>", ">&") or _HARMLESS_PLACES.fullmatch(file):
            continue
        nothing = program.name in ("", ":", "true") or program.words in (("cat", "/dev/null"), ("echo", "-n"))
        if nothing or operator == ">|" or file.startswith(("/", "~", "$HOME", "${HOME}")):
            return True
    return program.name == "tee" and any(word.startswith(("/etc/", "/usr/", "/dev/sd")) for word in program.arguments)


def _git(words: Sequence[str]) -> list[str]:
    """A git command without what stands before its name."""
    words = list(words)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in ("-C", "-c", "--git-dir", "--work-tree") else 1]
    return words


def _git_deletes(words: list[str]) -> bool:
    if not words:
        return False
    command, rest = words[0], words[1:]
    flags = {word for word in rest if word.startswith("-")}
    short = "".join(word[1:] for word in flags if not word.startswith("--"))
    if command == "checkout":
        return "--" in rest or "." in rest or "f" in short or "--force" in flags or "B" in short
    if command == "restore":
        return "--staged" not in flags or "--worktree" in flags or "W" in short
    if command == "push":
        forced = any(flag.startswith(("--force", "--delete", "--mirror", "--prune")) for flag in flags)
        return forced or bool(set(short) & set("fd")) or any(word.startswith((":", "+")) for word in rest)
    if command in ("branch", "tag"):
        return bool(set(short) & set("dD")) or "--delete" in flags
    match command:
        case "reset":
            return bool(flags & {"--hard", "--merge", "--keep"})
        case "clean":
            return "n" not in short and "--dry-run" not in flags
        case "stash":
            return rest[:1] in (["drop"], ["clear"])
        case "reflog":
            return rest[:1] in (["expire"], ["delete"])
        case "worktree" | "remote" | "submodule":
            return bool(set(rest[:1]) & {"remove", "rm", "prune", "deinit"})
        case "switch":
            return "f" in short or bool(flags & {"--force", "--discard-changes"})
        case "gc":
            return any(flag.startswith("--prune") for flag in flags)
        case "update-ref":
            return "d" in short
        case _:
            return command in ("rm", "filter-branch", "filter-repo", "prune")


def _installs(program: Program) -> bool:
    name, words = program.name, program.arguments
    if name in _INSTALLERS and _INSTALLERS[name] & set(words):
        return True
    if re.fullmatch(r"python[\d.]*|pypy3?", name):
        module = words[:3] in (("-m", "pip", "install"), ("-m", "pip", "uninstall")) or words[:2] == ("-m", "ensurepip")
        if module or (words[:1] == ("setup.py",) and "install" in words):
            return True
    return _runs_what_came(program)


def _runs_what_came(program: Program) -> bool:
    """Whether a shell (or a language) runs what was just loaded from elsewhere."""
    interprets = program.name in SHELLS or re.fullmatch(r"python[\d.]*|perl|ruby|node|source|\.|eval", program.name)
    if not interprets:
        return False
    loaded = any(each.name in ("curl", "wget") for each in program.fed)
    reads_it = program.name in SHELLS or not [word for word in program.arguments if word not in ("-", "-s", "--")]
    return (loaded and reads_it) or any(
        re.search(r"[<$]\(\s*(curl|wget)\b|`\s*(curl|wget)\b", word) for word in program.arguments
    )


def _sends(program: Program) -> bool:
    name, words = program.name, program.arguments
    if name in _SENDERS:
        return not any(_LOCAL.match(word) for word in words)
    if name == "ssh":
        return bool(words) and not _asks_only(words)
    if name == "rsync":
        return any(re.match(r"[\w.@-]+::?|rsync://", word) and ":" in word for word in words)
    if name in ("curl", "wget", "http", "https", "xh"):
        text = " ".join(words)
        uploads = any(_UPLOADS.fullmatch(word.partition("=")[0]) for word in words if word.startswith("-"))
        hosts = [word for word in words if re.match(r"https?://|localhost|127\.", word)]
        if hosts and all(map(_LOCAL.match, hosts)):
            return False
        return uploads or _METHODS.search(text) is not None or bool({"POST", "PUT", "DELETE", "PATCH"} & set(words[:2]))
    if name == "git":
        return _git(words)[:1] in (["push"], ["send-email"])
    if name == "aws":
        return words[:1] == ("s3",) and any(word.startswith("s3://") for word in words[-1:]) and "ls" not in words
    if _SENDS.get(name, set()) & set(words):
        return True
    return any(file.startswith(("/dev/tcp/", "/dev/udp/")) for _, file in program.writes)


def _permits(program: Program) -> bool:
    name, words = program.name, program.arguments
    if name in _OWNERS:
        return not _asks_only(words)
    if name == "chmod":
        return any(_opens(word) for word in words)
    return name in ("docker", "podman") and "--privileged" in words


def _opens(word: str) -> bool:
    """Whether a mode lets others write, or a program run as its owner."""
    if re.fullmatch(r"[0-7]{3,4}", word):
        return bool(int(word[-1]) & 2 or (len(word) == 4 and int(word[0]) & 6))
    return bool(re.search(r"(^|,)[ugoa]*[ao][ugoa]*[+=][rxXst]*w|[+=][rwxX]*s|^[+=]\w*w", word))


def _unclear(program: Program) -> bool:
    name = program.name
    if program.computed:
        return True
    if name == "eval" and program.arguments:
        return any(mark in " ".join(program.arguments) for mark in "$`")
    if (
        name not in SHELLS
        or not program.fed
        or _runs_what_came(program)
        or (program.arguments and not program.arguments[-1].startswith("-"))
    ):
        return False
    return not (program.given or spoken(program.fed[0]))


_JUDGES: dict[str, Callable[[Program], bool]] = {
    "delete": _deletes,
    "install": _installs,
    "send": _sends,
    "permission": _permits,
    "unclear": _unclear,
}
