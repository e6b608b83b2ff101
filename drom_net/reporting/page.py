"""A run's report: one HTML page that needs no network and no script, and the same as PNG."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from drom_net.core.errors import DromNetError
from drom_net.node.reports import printable
from drom_net.plots.base import inline_svg, require_matplotlib
from drom_net.plots.sheet import draw_sheet
from drom_net.reporting import pictures
from drom_net.reporting.about import EXPERTS, TERMS, about
from drom_net.reporting.facts import RunFacts, read_facts
from drom_net.reporting.figures import Figures, calibration_in_words, figures_of, related_of
from drom_net.results import wording
from drom_net.results.evidence import SO_FAR
from drom_net.results.run_directory import REPORT
from drom_net.results.summary import write_text
from drom_net.results.verdict import effect_of, task_verdict
from drom_net.results.wording import size

_EVENTS_SHOWN = 100
_NAME_LIMIT = 60
_STYLE = Path(__file__).parent / "static" / "page.css"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
percent, number = partial(wording.percent, unknown="–"), partial(wording.number, unknown="–")
_MARKS = {"helps": "▲", "hurts": "▼", "cannot tell yet": "?"}


def write_report(run_dir: Path, path: Path | None = None, *, error: str = "", repeat: str = "") -> Path:
    """Write the report of a run, and the same as PNG beside it: its answer and its figures.

    Args:
        path: The page; by default report.html in the run directory.
        error: Why the run failed, which may have no summary then.
        repeat: Said in place of the commands that repeat the run, where its directory does not stay.

    Returns:
        The page's path.

    Raises:
        UsageError: matplotlib is missing, or there is no such run.
    """
    require_matplotlib()
    path = path or run_dir / REPORT
    facts = dataclasses.replace(read_facts(run_dir, error=error), repeat=repeat)
    figures = figures_of(facts)
    write_text(path, page_of(facts, figures))
    drawn = [(figure.caption, figure.draw) for figure in figures.values()]
    draw_sheet(_head(facts), drawn, path.with_suffix(".png"))
    return path


def page_of(facts: RunFacts, figures: Figures) -> str:
    """The page as HTML."""
    summary = facts.summary
    sections = [
        ("answer", "Answer", _answer(facts, figures)),
        ("about", "What was learned", _about(facts)),
        ("sites", "Sites", _sites(facts)),
        ("curves", "Error over time", _curves(facts, figures)),
        ("relatedness", "Which sites are alike", _relatedness(facts, figures)),
        ("calibration", "Calibration", _calibration(facts, figures)),
        ("privacy", "Communication and privacy", _communication(facts)),
        ("time", "Time", _time(facts, figures)),
        ("faults", "Faults", _faults(facts)),
        ("repeat", "How to repeat it", _repeat(facts)),
    ]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in sections)
    body = "".join(f'<section id="{key}"><h2>{title}</h2>{text}</section>' for key, title, text in sections)
    title = text_of(summary["name"])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}: report of a run</title><style>{_STYLE.read_text(encoding='utf-8')}</style></head><body>"
        f"<header><h1><bdi>{title}</bdi></h1><p>{text_of(_in_short(summary))}</p>"
        f'<nav aria-label="Sections">{links}</nav></header><main>{body}</main></body></html>\n'
    )


def _in_short(summary: Mapping[str, Any]) -> str:
    on = f" on {summary['dataset']}" if summary.get("dataset") else ""
    ended = f"{summary['status']} after {summary['rounds']} rounds" if "rounds" in summary else "failed"
    seconds = f", {summary['seconds']:.3g} s" if summary.get("seconds") is not None else ""
    return f"{summary['algorithm']}{on}, driver {summary['driver']}: {ended}{seconds}"


def _head(facts: RunFacts) -> list[tuple[str, float, str]]:
    """The words of the picture: the title, the answer, what was learned."""
    summary = facts.summary
    said = [*([f"The run failed. {facts.error}"] if facts.error else []), *map(_sentence, _said(summary))]
    if not said and summary.get("error_rate") is not None:
        said = [_rates(summary)]
    words = [
        (summary["name"], 15.0, "bold"),
        (_in_short(summary), 9.0, "normal"),
        *((one, 11.0, "bold") for one in said),
    ]
    words += [(f"{what}: {value}", 9.0, "normal") for what, value in about(facts)]
    return [(printable(text), size, weight) for text, size, weight in words]


def _said(summary: Mapping[str, Any]) -> list[str]:
    """The sentences of the answer, the one about sharing in all first."""
    said = summary.get("verdict") or [one for one in [(summary.get("sharing") or {}).get("verdict")] if one]
    return sorted(said, key=lambda sentence: not sentence.startswith("sharing") or _told_by_site(sentence))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _rates(summary: Mapping[str, Any]) -> str:
    rates = f"{percent(summary['error_rate'])} errors; always giving each site's commoner label makes"
    return f"{rates} {percent(summary.get('majority_error_rate'))}."


def text_of(value: object) -> str:
    """Text from anywhere, for HTML: nothing in it is markup, or turns the direction of what stands beside it."""
    return escape(printable(str(value)))


def name_of(name: str) -> str:
    """A name, set apart in its own direction; of a long one the beginning."""
    if len(name) <= _NAME_LIMIT:
        return f"<bdi>{text_of(name)}</bdi>"
    return f'<bdi title="{text_of(name)}">{text_of(name[: _NAME_LIMIT - 1])}…</bdi>'


def sentence_of(text: str, names: Sequence[str]) -> str:
    """A sentence with names in it, of which those from right to left are set apart."""
    turned = {name for name in names if any(unicodedata.bidirectional(char) in ("R", "AL") for char in name)}
    if not turned:
        told = text_of(text)
    else:
        # One pass over the text as it is: no name is looked for in markup that another has become.
        pieces = re.split("(" + "|".join(map(re.escape, sorted(turned, key=len, reverse=True))) + ")", text)
        told = "".join(name_of(piece) if piece in turned else text_of(piece) for piece in pieces)
    return told[:1].upper() + told[1:]


def _answer(facts: RunFacts, figures: Figures) -> str:
    summary, names = facts.summary, facts.names
    lines = []
    if facts.error:
        lines.append(f'<p class="answer bad"><strong>The run failed.</strong> {sentence_of(facts.error, names)}</p>')
    elif summary["status"] != "finished":
        lines.append("<p><strong>The run was interrupted:</strong> these are the figures of the rounds so far.</p>")
    said = _said(summary)
    if summary.get("error_rate") is not None and not (summary.get("sharing") or {}).get("effect"):
        lines.append(f'<p class="answer">{_rates(summary)}</p>')
    lines += [f'<p class="answer">{sentence_of(sentence, names)}.</p>' for sentence in said[:1]]
    effects = [(task["name"], task["sharing"]) for task in summary["tasks"] if task.get("sharing")]
    if 1 < len(effects) <= pictures.SITES_SHOWN:
        lines += [f"<p>{sentence_of(text, names)}.</p>" for text in said[1:] if not _told_by_site(text)]
        lines.append("<p>Whether sharing helps each site:</p>")
        items = [f"<li>{_mark(its)} {name_of(name)}: {text_of(task_verdict(its))}</li>" for name, its in effects]
        lines.append(f'<ul class="effects">{"".join(items)}</ul>')
    else:
        lines += [f"<p>{sentence_of(text, names)}.</p>" for text in said[1:]]
    if effects and (summary.get("sharing") or {}).get("effect"):
        lines.append(
            f'<p class="note">{SO_FAR} Gains are percentage points of errors against the same site alone. Where errors '
            "are too few to tell, log loss tells, in nats for an example: minus the natural logarithm of the "
            "probability that was given to the true label. Intervals hold at all times, and the chance that anything "
            "false is said of any site is at most 5 %.</p>"
        )
    elif "sharing" not in summary and not facts.error:
        learner = text_of(summary["algorithm"])
        lines.append(
            f'<p class="note">The learner {learner} keeps no evidence of whether sharing helps; adadrom does.</p>'
        )
    lines.append(_figure(figures, "overview"))
    return "".join(lines) or "<p>There is nothing to tell: no site had any examples.</p>"


def _told_by_site(sentence: str) -> bool:
    return sentence.startswith(("cannot tell yet of", "sharing helps ", "sharing hurts ")) and " tasks: " in sentence


def _mark(its: Mapping[str, Any]) -> str:
    return f'<span aria-hidden="true">{_MARKS.get(its.get("effect") or "", "–")}</span>'


def _sites(facts: RunFacts) -> str:
    tasks = list(facts.summary["tasks"])
    if not tasks:
        return "<p>No site had reported anything.</p>"
    shares = any(task.get("sharing") for task in tasks)
    terms = _terms(_columns(shares))
    if len(tasks) <= pictures.ROWS_SHOWN:
        return _table_of(facts, tasks, shares, "All sites") + terms
    ranked = [tasks[site] for site in pictures.in_order(facts)]
    half = pictures.ROWS_SHOWN // 2
    order = "gained most by sharing" if shares else "err least"
    contrary = "gained least or lost" if shares else "err most"
    return (
        _table_of(facts, ranked[:half], shares, f"The {half} of {len(tasks)} sites that {order}")
        + _table_of(facts, ranked[-half:], shares, f"The {half} that {contrary}", with_all=False)
        + f"<details><summary>All {len(tasks)} sites</summary>"
        + _table_of(facts, tasks, shares, "All sites", with_all=False)
        + "</details>"
        + terms
    )


def _table_of(
    facts: RunFacts, tasks: Sequence[Mapping[str, Any]], shares: bool, caption: str, *, with_all: bool = True
) -> str:
    columns, rows = _columns(shares), [_row(task, shares) for task in tasks]
    if with_all and facts.summary.get("error_rate") is not None:
        rows.append(_row({**facts.summary, "name": "all"}, shares))
    return _table(columns, rows, caption, last_is_sum=with_all and len(rows) > len(tasks))


def _columns(shares: bool) -> list[str]:
    columns = ["site", "examples", "errors", "majority", *(["alone", "gain", "sharing"] if shares else [])]
    return [*columns, "AUC", "log loss", "F1", *(["noise"] if shares else [])]


def _row(task: Mapping[str, Any], shares: bool) -> list[str]:
    name = name_of(task["name"]) + (" (lost)" if task.get("lost") else "")
    cells = [name, text_of(task.get("examples", "–")), percent(task.get("error_rate"))]
    cells.append(percent(task.get("majority_error_rate")))
    rates = [number(task.get(key)) for key in ("auc", "log_loss", "f1")]
    if not shares:
        return [*cells, *rates]
    its = task.get("sharing") or {}
    gain, bounds = its.get("gain_points"), its.get("gain_points_interval")
    told = "–" if gain is None else f"{gain:+.2f}" + (f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" if bounds else "")
    effect = f"{_mark(its)} {text_of(effect_of(its))}" if its.get("effect") else "–"
    return [*cells, percent(its.get("error_rate_alone")), told, effect, *rates, percent(its.get("noise"))]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, *, last_is_sum: bool = False) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    lines = []
    for place, row in enumerate(rows):
        kind = ' class="sum"' if last_is_sum and place == len(rows) - 1 else ""
        lines.append(f'<tr{kind}><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>')
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _figure(figures: Figures, name: str) -> str:
    """Empty where there is none."""
    its = figures.get(name)
    if its is None:
        return ""
    caption = f"<figcaption>{text_of(its.caption)}</figcaption>"
    try:
        parts = [inline_svg(draw, name=f"{name}-{place}") for place, draw in enumerate(its.parts or [its.draw])]
    except DromNetError as error:
        return f'<p class="note">{text_of(error)}</p>'
    drawn = parts[-1]
    if its.parts:
        wide = ' class="panels two"' if its.columns == 2 else ' class="panels"'
        drawn = f"{parts[0]}<div{wide}>{''.join(parts[1:])}</div>"
    words = f'role="img" aria-label="{escape(printable(its.alt))}"'
    return f'<figure tabindex="0"><div class="picture" {words}>{drawn}</div>{caption}</figure>'


def _about(facts: RunFacts) -> str:
    return _table(["what", "value"], [(text_of(what), text_of(value)) for what, value in about(facts)], "This run")


def _terms(columns: Sequence[str]) -> str:
    """What the columns of a table mean, folded."""
    rows = [(term, text_of(meaning)) for term, meaning in TERMS.items() if term in columns]
    return f'<details class="terms"><summary>What the columns say</summary>{_list(rows)}</details>'


def _experts(facts: RunFacts) -> str:
    """The legend of the experts in words."""
    there = next(iter(facts.summary["tasks"]))["sharing"].get("weights_at_end") or {}
    rows = [(name, EXPERTS[name]) for name in there if name in EXPERTS]
    told = "The learner mixes these experts, and trusts at each site those that have predicted best there:"
    return f'<p class="note">{told}</p>{_list(rows)}' if rows else ""


def _list(rows: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{term}</dt><dd>{meaning}</dd>' for term, meaning in rows)}</dl>"


def _missing(facts: RunFacts, what: str, otherwise: str) -> str:
    return f'<p class="note">Left out: {text_of(facts.missing.get(what, otherwise))}.</p>'


def _curves(facts: RunFacts, figures: Figures) -> str:
    if not facts.tasks:
        return _missing(
            facts, "records", "a run that failed keeps no records" if facts.error else "there are no records"
        )
    drawn = _figure(figures, "curves") + _figure(figures, "sharing")
    if "sharing" in figures:
        drawn += _experts(facts)
    return drawn or "<p>There is one site, or too few examples: the curve of all is above.</p>"


def _relatedness(facts: RunFacts, figures: Figures) -> str:
    if facts.models is None or not len(facts.models):
        return _missing(facts, "models", "there are no models")
    if len(facts.models) == 1:
        return "<p>There is one site, and none to compare it with.</p>"
    found = related_of(facts)
    if found is None:
        return "<p>Fewer than two sites have learned a model.</p>"
    return (
        f"<p>{sentence_of(found.told, found.names)}</p>"
        + _figure(figures, "relatedness")
        + '<p class="note">This picture tells of each site\'s model. Do not pass it on where models are private.</p>'
    )


def _calibration(facts: RunFacts, figures: Figures) -> str:
    if "calibration" not in figures:
        return _missing(facts, "records", "there are no records of labelled examples")
    return f"<p>{calibration_in_words(facts)}.</p>" + _figure(figures, "calibration")


def _communication(facts: RunFacts) -> str:
    summary = facts.summary
    leaves = summary.get("what_leaves")
    lines = [f"<p>{_with_commands(leaves)}</p>"] if leaves else []
    if summary["driver"] == "reference":
        lines.append("<p>The plain loop sends nothing: all sites were in one process.</p>")
        return "".join(lines)
    tasks = [task for task in summary["tasks"] if task.get("bytes_sent") is not None]
    lines.append(
        f"<p>All sites sent {size(sum(task['bytes_sent'] for task in tasks))} and received "
        f"{size(sum(task['bytes_received'] for task in tasks))} (headers and vectors).</p>"
    )
    columns = ["site", "sent", "received", "sent for an example"]
    rows = []
    for task in tasks:
        each = size(task["bytes_sent"] / task["examples"]) if task.get("examples") else "–"
        rows.append([name_of(task["name"]), size(task["bytes_sent"]), size(task["bytes_received"]), each])
    if rows:
        lines.append(_unfolding(columns, rows, "What left each site"))
    if facts.edges is not None:
        lines.append(f"<p>There is no reducer: sites send to their neighbors, over {len(facts.edges)} edges.</p>")
        if len(facts.edges) <= 60:
            pairs = "; ".join(f"{name_of(one)} – {name_of(other)}" for one, other in facts.edges)
            lines.append(f"<p>{pairs}</p>")
    return "".join(lines)


def _with_commands(text: str) -> str:
    """A text whose commands stand between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text_of(text))


def _unfolding(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table, folded where it is long."""
    table = _table(columns, rows, caption)
    if len(rows) <= pictures.ROWS_SHOWN:
        return table
    return f"<details><summary>{escape(caption)}: {len(rows)} rows</summary>{table}</details>"


def _time(facts: RunFacts, figures: Figures) -> str:
    summary, lines = facts.summary, []
    if summary.get("waiting_share") is not None:
        waits = [(task["waiting_s"] / (task["learning_s"] or 1.0), task["name"]) for task in summary["tasks"]]
        most = max(waits)
        lines.append(
            f"<p>Sites waited for others {100.0 * summary['waiting_share']:.1f} % of their time; "
            f"{name_of(most[1])} most, {100.0 * most[0]:.1f} %.</p>"
        )
    if not facts.lanes:
        return "".join(lines) + _missing(facts, "timeline", "there is no timeline")
    return "".join(lines) + _figure(figures, "time")


def _faults(facts: RunFacts) -> str:
    lines = []
    for name, count in zip(facts.names, facts.returns, strict=False):
        if count:
            lines.append(f"{name_of(name)} went on after a crash, {_times(count)}.")
    for name, count in facts.absences.items():
        lines.append(f"{name_of(name)} was missing in {count} central steps; its last vectors were used.")
    lines += [
        f"{name_of(task['name'])} was lost, and did not come back."
        for task in facts.summary["tasks"]
        if task.get("lost")
    ]
    for fault in facts.faults:
        until = f" to {fault.to_s:.4g} s" if math.isfinite(fault.to_s) else " on"
        lines.append(f"{text_of(fault.what)} of {name_of(fault.where)} from {fault.from_s:.4g} s{until} (simulated).")
    told = facts.events
    if not lines and not told:
        return "<p>None: every node ran from the beginning to the end, and nobody was missing.</p>"
    shown = f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""
    if told:
        rows = [[_time_of(one), text_of(one["text"])] for one in told[-_EVENTS_SHOWN:]]
        more = f"The last {len(rows)} of {len(told):,} events" if len(told) > len(rows) else "Events of the processes"
        shown += _unfolding(["time (UTC)", "what happened"], rows, more)
    return shown


def _time_of(event: Mapping[str, Any]) -> str:
    """``2026-11-30 00:12:01``; a dash where it is damaged."""
    try:
        return f"{datetime.fromisoformat(event['time']):%Y-%m-%d %H:%M:%S}"
    except (KeyError, TypeError, ValueError):
        return "–"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _repeat(facts: RunFacts) -> str:
    where = shlex.quote(str(facts.run_dir))
    config = shlex.quote(str(facts.run_dir / "config.yaml"))
    how = {"reference": " --driver reference", "simulation": " --driver simulation"}.get(facts.summary["driver"], "")
    version = facts.environment.get("drom_net")
    commands = [*([f"pip install drom-net=={version}"] if version else []), f"drom-net run {config}{how}"]
    if not facts.error:
        commands += [f"drom-net verify {where}", f"drom-net replay {where}"]
    rows = [
        ["digest of the run", facts.summary.get("digest", "–")],
        ["digest of the configuration", facts.digest or "–"],
    ]
    if facts.config is not None:
        rows.append(["seed", str(facts.config.seed)])
    if facts.simulation:
        rows += [
            [key.replace("_", " "), str(value)]
            for key, value in facts.simulation.items()
            if not isinstance(value, list | dict)
        ]
    rows += [
        [key if key == "drom_net" else key.replace("_", " "), str(value)]
        for key, value in facts.environment.items()
        if value != ""
    ]
    told = [[text_of(key), f"<code>{text_of(value)}</code>"] for key, value in rows]
    how_to = f"<pre><code>{chr(10).join(map(text_of, commands))}</code></pre>"
    return (
        (f"<p>{text_of(facts.repeat)}</p>" if facts.repeat else how_to)
        + "<p>The same rows, configuration and versions give the same digest, bit for bit, by every driver.</p>"
        + _table(["what", "value"], told, "What it ran on")
    )
