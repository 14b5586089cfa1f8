"""Debian packages that the suites come from, and those that it takes to build and run them.

Sources are downloaded and unpacked without being installed: they would pull in, or upgrade, much of the machine.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from runner import say


class Missing(Exception):
    """What a suite needs and this machine does not have."""


def apt(*arguments, cwd=None):
    """The error message, or None if it worked."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments],
            cwd=cwd, env=environment, capture_output=True, text=True, check=False,
        )
    except FileNotFoundError:
        return "there is no apt-get on this machine"
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"apt-get {arguments[0]} ended with status {done.returncode}"


def is_installed(package):
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout == "installed"


def need_installed(*packages):
    if shutil.which("dpkg-query") is None:
        raise Missing("this needs Debian 12 (there is no dpkg-query on this machine)")
    absent = [package for package in packages if not is_installed(package)]
    if not absent:
        return
    wish = "apt-get install " + " ".join(absent)
    if os.geteuid() != 0:
        raise Missing(f"{wish} (only root can)")
    say(wish)
    error = apt("update") or apt("install", "-y", "--no-install-recommends", *absent)
    if error:
        raise Missing(f"{wish}: {error}")


def candidates(packages):
    """The version of each package that apt would download, or None."""
    def version(package):
        policy = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, check=False).stdout
        found = re.search(r"Candidate: (\S+)", policy)
        return found.group(1) if found and found.group(1) != "(none)" else None
    return {package: version(package) for package in packages}


def described(versions):
    return "".join(f"{package}={version}\n" for package, version in versions.items())


def unpacked(folder, packages, then):
    """The folder `files` in `folder`, with the contents of these packages and of what `then(files)` unpacked there.

    What an earlier run left is taken if its packages have the same versions, or if apt knows of none.
    """
    files, stamp = folder / "files", folder / "versions"
    versions = candidates(packages)
    if stamp.exists() and (None in versions.values() or stamp.read_text() == described(versions)):
        return files
    if os.geteuid() == 0:
        # The archive keeps no versions older than its newest lists name.
        apt("update")
        versions = candidates(packages)
    for package, version in versions.items():
        if version is None:
            raise Missing(f"apt knows no package {package} (as root: apt-get update)")
    wanted = described(versions)

    say("downloading " + " ".join(wanted.split()))
    download = folder / "download"
    shutil.rmtree(download, ignore_errors=True)
    download.mkdir()
    error = apt("download", *wanted.split(), cwd=download)
    if error:
        raise Missing(f"apt-get download {' '.join(packages)}: {error}")
    stamp.unlink(missing_ok=True)
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    for archive in download.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, files], check=True)
    shutil.rmtree(download)
    then(files)
    stamp.write_text(wanted)
    return files


def built(folder, recipe, build):
    """Has build() fill the folder, unless it was filled by the same recipe, the source file that does this."""
    digest = hashlib.sha256(Path(recipe).read_bytes()).hexdigest()
    stamp = folder / "recipe"
    if stamp.exists() and stamp.read_text() == digest:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    build()
    stamp.write_text(digest)


def only(pattern, folder: Path):
    """The one file in the folder that the pattern matches."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Missing(f"{folder}/{pattern}: expected one file, found {len(found)}")
    return found[0]
