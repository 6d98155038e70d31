"""The page as a file, the states it believes, and the server that answers it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from copy import deepcopy
from html import unescape

import numpy as np
import pytest
from click.testing import CliRunner
from explorer_layouts import NODE

import hardmax as hm
from hardmax.cli import main
from hardmax.errors import InvalidInputError, MissingExtraError
from hardmax.explorer.answers import answer
from hardmax.explorer.page import explorer_page, joined_script
from hardmax.explorer.server import LARGEST_QUESTION, ExplorerServer
from hardmax.explorer.states import checked_state

SCENES = {scene["name"]: scene for scene in hm.explorer.scenes()}


def test_ten_scenes_with_words_and_a_question():
    assert len(SCENES) == 10
    for scene in SCENES.values():
        assert scene["question"]
        assert 2 <= len(re.findall(r"[.!?](?=\s|$)", scene["text"])) <= 3, scene["name"]
        assert checked_state(scene["state"]) == scene["state"]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("fig3", 5),
        ("fig5", 4),
        ("fig4", 18),
        ("saturation", 20),
        ("fig7", 8),
        ("sawtooth", 256),
        ("infoflow", 2),
    ],
)
def test_scenes_count_what_their_words_say(name, count):
    assert answer(SCENES[name]["state"])["count"] == count


def test_the_sawtooth_on_the_larger_square_is_the_sawtooth():
    from hardmax.explorer.answers import network_of

    moved, given = network_of(SCENES["sawtooth"]["state"]), hm.networks.sawtooth_network(2, 2, 1, 2)
    points = np.array([[0.1, 0.7], [0.3, 0.2], [0.9, 0.55]])
    assert moved(2 * points - 1) == pytest.approx(2 * given(points) - 1)


def test_the_file_is_whole_and_loads_nothing(tmp_path):
    path = hm.explore("fig4").save(tmp_path / "explorer.html")
    text = path.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in text
    assert "connect-src" not in text
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", text)
    assert not re.search(r"^import ", joined_script("app"), re.MULTILINE)
    assert "connect-src &#39;self&#39;" in explorer_page(asks="server")
    assert len(text) < 300_000


def test_a_notebook_shows_the_page_in_a_frame():
    shown = hm.explore("fig5")._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert unescape(shown).count("<!doctype html>") == 1


def test_without_anywidget_a_notebook_gets_the_frame(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "hardmax.explorer.widget", raising=False)
    page = hm.explore("fig5")
    assert page._repr_mimebundle_()["text/html"] == page._repr_html_()
    with pytest.raises(MissingExtraError, match="pip install anywidget"):
        _ = page.widget


def test_the_widget_answers_and_keeps_the_state(monkeypatch):
    pytest.importorskip("anywidget")
    page = hm.explore("fig3")
    bundle, _ = page._repr_mimebundle_(include=None, exclude=None)
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= bundle.keys()
    widget, sent = page.widget, []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._handle_custom_msg({"id": 7, "state": SCENES["fig5"]["state"]}, [])
    assert sent == [{"id": 7, **answer(SCENES["fig5"]["state"])}]
    assert widget.state == SCENES["fig5"]["state"]
    widget._handle_custom_msg({"id": 8, "state": {"mode": "cells"}}, [])
    assert sent[1]["id"] == 8
    assert sent[1]["error"].startswith("a state must be")
    assert widget.state == SCENES["fig5"]["state"]


def test_an_unknown_scene_is_named_with_those_there_are():
    with pytest.raises(InvalidInputError, match=r"one of fig3, fig5, .* but was 'fig9'"):
        hm.explore("fig9")


WRONG = [
    ("mode", "cells"),
    ("rule", "softmax"),
    ("scores", 3),
    ("temperature", -1),
    ("temperature", float("nan")),
    ("half", 0),
    ("half", True),
    ("keys", []),
    ("keys", [[1, 2]]),
    ("keys", [[1, 2, "3"]]),
    ("keys", [[1, 2, 1e300]]),
    ("keys", [[0, 0, 0]] * 201),
    ("points", {"a": 1}),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_states_that_make_no_sense_are_refused(field, value):
    with pytest.raises(InvalidInputError):
        checked_state({**SCENES["fig3"]["state"], field: value})


@pytest.mark.parametrize("name", ["fig7", "infoflow", "fig4"])
def test_no_part_of_a_state_is_believed(name):
    """Every number replaced by a text, every list by an empty one: an error each time, never a crash."""

    def spoilt(value):
        if isinstance(value, list):
            yield []
            for i, item in enumerate(value):
                for bad in spoilt(item):
                    yield [*value[:i], bad, *value[i + 1 :]]
        elif isinstance(value, dict):
            for key, item in value.items():
                for bad in spoilt(item):
                    yield {**value, key: bad}
        else:
            yield "<script>"

    for bad in spoilt(deepcopy(SCENES[name]["state"])):
        with pytest.raises(InvalidInputError):
            checked_state(bad)


def test_a_skip_connection_keeps_the_width():
    state = deepcopy(SCENES["classifier"]["state"])
    state["blocks"][1]["skip"] = True
    with pytest.raises(InvalidInputError, match="skip"):
        checked_state(state)


# The server ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with ExplorerServer() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join(5)
        assert not thread.is_alive()


def ask(server, method="POST", path="/answer", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    here = f"127.0.0.1:{server.server_port}"
    given = {"Host": here, "Origin": f"http://{here}", "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if method == "GET" else json.dumps(body) if not isinstance(body, (bytes, str)) else body
    connection.request(method, path, body=data, headers={k: v for k, v in given.items() if v is not None})
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply.status, text, reply.headers


def test_the_server_gives_the_page_and_exact_answers(server):
    assert server.server_address[0] == "127.0.0.1"
    status, text, headers = ask(server, "GET", "/")
    assert (status, headers["X-Content-Type-Options"]) == (200, "nosniff")
    assert b"connect-src &#39;self&#39;" in text
    status, text, _ = ask(server, body=SCENES["fig3"]["state"])
    assert (status, json.loads(text)) == (200, {"count": 5, "empty": [4, 5]})


@pytest.mark.parametrize("path", ["/etc/passwd", "/../pyproject.toml", "/web/app.js", "/?x", "/favicon.ico"])
def test_the_server_gives_no_files(server, path):
    assert ask(server, "GET", path)[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Length": str(LARGEST_QUESTION + 1)}, 413),
        ({"Content_Length": "-5"}, 413),
    ],
)
def test_the_server_answers_only_its_own_page(server, headers, status):
    found, text, _ = ask(server, body=b"{}", **headers)
    assert found == status
    assert json.loads(text)["error"]


@pytest.mark.parametrize(
    "body", [b"{", b"[" * 100_000, b"null", b'{"mode": "head"}', b"\xff", b'{"mode": NaN}']
)
def test_a_bad_question_gets_a_sentence(server, body):
    status, text, _ = ask(server, body=body)
    assert status == 400
    assert json.loads(text)["error"].endswith(".")


def test_other_methods_are_refused(server):
    assert ask(server, "PUT", "/answer", body={})[0] == 501


def test_control_c_ends_the_command_at_once():
    command = [sys.executable, "-m", "hardmax", "explore", "fig5", "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as run:
        assert run.stdout is not None
        line = run.stdout.readline()
        assert re.search(r"http://127\.0\.0\.1:\d+/", line), line
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=20)
    assert "Traceback" not in err
    assert run.returncode == 0


# Copy as Python --------------------------------------------------------------------------------------------


@pytest.mark.skipif(NODE is None, reason="no node on the path: the modules of the page are not run")
def test_copied_programs_count_the_same(capsys):
    states = [scene["state"] for scene in SCENES.values()]
    for rule in ("top-2", "sparsemax"):
        for scores in ("attention", "power", "voronoi"):
            states.append({**SCENES["fig5"]["state"], "rule": rule, "scores": scores})
    states.append({**SCENES["infoflow"]["state"], "first": [False]})
    states.append({**SCENES["infoflow"]["state"], "last": [False]})
    states.append({**SCENES["fig7"]["state"], "shown": 0})
    module = (hm.explorer.__path__[0] + "/web/python.js").replace("\\", "/")
    program = (
        f'import {{ pythonOf }} from "{module}"; let text = ""; for await (const part of process.stdin) '
        "text += part; console.log(JSON.stringify(JSON.parse(text).map(pythonOf)));"
    )
    made = subprocess.run(
        [NODE, "--input-type=module", "--eval", program],
        input=json.dumps(states),
        capture_output=True,
        text=True,
        check=True,
    )
    for state, source in zip(states, json.loads(made.stdout), strict=True):
        exec(compile(source, "copied", "exec"), {})
        printed = capsys.readouterr().out
        assert int(printed.split()[0]) == answer(state)["count"], source


# The command -----------------------------------------------------------------------------------------------


def test_the_command_writes_and_lists(tmp_path):
    done = CliRunner().invoke(main, ["explore", "minilm", "--out", str(tmp_path / "explorer.html")])
    assert done.exit_code == 0
    assert '"first":{"mode":"head"' in (tmp_path / "explorer.html").read_text(encoding="utf-8")
    listed = CliRunner().invoke(main, ["explore", "--list"]).output
    assert [line.split()[0] for line in listed.splitlines()] == list(SCENES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["nowhere"], "scene must be one of"), (["--out", "/no/such/folder/x.html"], "folder does not exist")],
)
def test_the_command_refuses_in_a_sentence(arguments, words):
    done = CliRunner().invoke(main, ["explore", *arguments])
    assert done.exit_code == 2
    assert words in done.output
