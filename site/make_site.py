"""The repository as a book, without the network: `make site`, or `python site/make_site.py`.

Sources are gathered in build/site-source/, MathJax is taken from npm once, Sphinx writes build/site/, and
every link is followed.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from light import lighten
from links import broken_links
from stage import ROOT, stage

BUILD = ROOT / "build"
MATHJAX = "3.2.2"
INTEGRITY = "sha512-Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw=="
# What sets TeX while the site is built, and its fonts.
PARTS = ("es5/node-main.js", "es5/core.js", "es5/adaptors/", "es5/input/", "es5/output/", "LICENSE")


class BuildError(Exception):
    "What went wrong, in one line."


def mathjax(build: Path = BUILD) -> Path:
    "The folder with MathJax, unpacked from npm's package, which is kept and must have the pinned hash."
    archive, folder = build / f"mathjax-{MATHJAX}.tgz", build / f"mathjax-{MATHJAX}"
    if not archive.exists():
        build.mkdir(exist_ok=True)
        npm = shutil.which("npm")
        if npm is None:
            raise BuildError(
                f"formulas need MathJax: install npm, or put its package {archive.name} into {build.name}/"
            )
        command = [npm, "pack", "--silent", f"mathjax@{MATHJAX}", "--pack-destination", str(build)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not archive.exists():
            reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise BuildError(f"npm could not fetch mathjax@{MATHJAX}: {reason}")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != INTEGRITY:
        name = f"{build.name}/{archive.name}"
        raise BuildError(f"{name} has sha512-{digest[:12]}…, not the pinned one: delete it and build again")
    if not (folder / "node-main.js").exists():
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(archive) as package:
            for member in package:
                name = member.name.removeprefix("package/")
                if member.isfile() and name.startswith(PARTS):
                    member.name = name.removeprefix("es5/")
                    package.extract(member, folder, filter="data")
    return folder


def sphinx(source: Path, out: Path) -> None:
    "Sphinx with every warning an error."
    shutil.rmtree(out, ignore_errors=True)
    doctrees = source.with_name(f"{out.name}-doctrees")
    shutil.rmtree(doctrees, ignore_errors=True)
    # More processes than cores: each gets a fixed part of the pages, and parts differ.
    options = ["-q", "-W", "--keep-going", "-j", "6", "-c", str(ROOT / "site"), "-d", str(doctrees)]
    done = subprocess.run([sys.executable, "-m", "sphinx", "-b", "html", *options, str(source), str(out)])
    if done.returncode:
        raise BuildError("Sphinx warned, see above")


def main() -> int:
    try:
        folder = mathjax()
        stage(BUILD / "site-source")
        sphinx(BUILD / "site-source", BUILD / "site")
        lighten(BUILD / "site", folder)
        broken = broken_links(BUILD / "site")
        if broken:
            raise BuildError(f"{len(broken)} broken links: {'; '.join(broken[:10])}")
    except BuildError as error:
        print(f"site: error: {error}", file=sys.stderr)
        return 2
    print("build/site/index.html")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
