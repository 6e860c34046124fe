"""Reports against what others have published: SARIF by its schema, the HTML page in a real browser without a network.

`make reports MIRROR=folder` runs these; the schema is read from a checkout of oasis-tcs/sarif-spec in that folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ecosystem.checkout import NotMirrored, check_out
from tests.report.verdicts import CLEAN, CRASH, ODD, broken_loop, ordinary
from trueloop.report import render
from trueloop.results.check import Verdict

pytestmark = pytest.mark.long
SCHEMA = "sarif-2.1/schema/sarif-schema-2.1.0.json"
ROOT = Path(__file__).parent.parent.parent


def verdicts(folder: Path) -> list[Verdict]:
    from dataclasses import replace

    usual = ordinary(broken_loop(folder))
    return [
        CLEAN,
        usual,
        replace(usual, findings=(*usual.findings, ODD)),
        replace(CLEAN, crash=CRASH, failures=("rule X failed",)),
    ]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    mirror = os.environ.get("TRUELOOP_MIRROR", "")
    if not mirror:
        pytest.skip(
            "no published schema: `make reports MIRROR=folder` reads it from a checkout of oasis-tcs/sarif-spec"
        )
    into = tmp_path_factory.mktemp("schema")
    try:
        check_out(Path(mirror), "oasis-tcs/sarif-spec", "HEAD", SCHEMA, into)
    except NotMirrored as missing:
        pytest.skip(str(missing))
    loaded: dict[str, object] = json.loads((into / SCHEMA).read_text(encoding="utf-8"))
    return loaded


def test_sarif_keeps_to_its_published_schema(schema: dict[str, object], tmp_path: Path) -> None:
    import jsonschema

    documents = [render(verdict, "sarif") for verdict in verdicts(tmp_path)]
    command = [
        sys.executable,
        "-m",
        "trueloop",
        "check",
        "--fail-on",
        "never",
        "--output",
        "real.sarif",
    ]
    subprocess.run(
        [*command, str(ROOT / "examples" / "broken_training.py")],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        timeout=120,
    )
    documents.append((tmp_path / "real.sarif").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    for document in documents:
        assert not [
            f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(json.loads(document))
        ]
    results = json.loads(documents[-1])["runs"][0]["results"]
    assert len(results) >= 5
    assert any("fixes" in result for result in results)
    broken = json.loads(documents[-1])
    broken["runs"][0]["results"][0]["level"] = "terrible"
    assert not validator.is_valid(broken)  # the schema does look


def test_the_page_opens_in_a_browser_that_has_no_network(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no chromium here")
    page = tmp_path / "report.html"
    page.write_text(render(ordinary(broken_loop(tmp_path)), "html"), encoding="utf-8")
    fetched = re.sub(r'<a href="[^"]*">', "", page.read_text(encoding="utf-8"))  # a link is fetched by a click only
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?(?!#|data:)""", fetched)
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    options = ["--headless", "--no-sandbox", "--disable-gpu", offline, "--enable-logging=stderr", "--dump-dom"]
    home = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [browser, *options, page.as_uri()], capture_output=True, text=True, timeout=120, check=True, env=home
    )
    assert "gradients-never-cleared" in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr
