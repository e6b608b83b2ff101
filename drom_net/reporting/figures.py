"""The figures of a run's report: what each shows, in words too, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from drom_net.plots.relatedness import draw_relatedness
from drom_net.plots.report import draw_picture, parts_of
from drom_net.plots.sharing import SHARING_LIMIT, draw_sharing
from drom_net.plots.timeline import draw_timeline
from drom_net.reporting import pictures
from drom_net.reporting.facts import RunFacts
from drom_net.results import wording
from drom_net.results.relatedness import Related, related
from drom_net.results.report import Picture

percent, number = partial(wording.percent, unknown="–"), partial(wording.number, unknown="–")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure."""

    draw: Callable[[Path], None]
    """Into a file, PNG or SVG by its suffix."""
    caption: str
    alt: str
    """What it shows, for who does not see it."""
    parts: Sequence[Callable[[Path], None]] = ()
    """The same in parts, of which a page puts as many beside each other as fit; empty where it is one."""
    columns: int = 1
    """How many of them at most, but for the first, the legend, which stands above them."""


Figures = dict[str, Figure]
"""By name, in the order of the page; those of which nothing is known are left out."""


def figures_of(facts: RunFacts) -> Figures:
    """All figures that there are of a run."""
    found = {
        "overview": _overview(facts),
        "curves": _curves(facts),
        "sharing": _sharing(facts),
        "relatedness": _relatedness(facts),
        "calibration": _calibration(facts),
        "time": _time(facts),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def _overview(facts: RunFacts) -> Figure | None:
    picture, its = pictures.overview(facts), facts.summary
    if picture is None:
        return None
    rates = f"{percent(its.get('error_rate'))} errors in all, {percent(its.get('majority_error_rate'))} by majority"
    alt = f"Error over time, gain and error by site, and calibration: {rates}. The table of sites has the numbers."
    return _of_panels(picture, "The run at a glance", alt)


def _curves(facts: RunFacts) -> Figure | None:
    picture = pictures.by_site(facts)
    if picture is None:
        return None
    some = f"{len(picture.panels)} of " if len(picture.panels) < len(facts.tasks) else ""
    caption = f"Errors so far by round, {some}{len(facts.tasks)} sites"
    rates = [facts.summary["tasks"][site].get("error_rate") for site in pictures.chosen(facts)]
    names = [facts.names[site] for site in pictures.chosen(facts)]
    told = ", ".join(f"{name} {percent(rate)}" for name, rate in zip(names, rates, strict=True))
    return _of_panels(picture, caption, f"Error over time by site; at the end {told}")


def _of_panels(picture: Picture, caption: str, alt: str) -> Figure:
    return Figure(partial(draw_picture, picture), caption, alt, parts_of(picture), picture.columns)


def _sharing(facts: RunFacts) -> Figure | None:
    tasks = [facts.summary["tasks"][site] for site in pictures.in_order(facts)]
    tasks = [task for task in tasks if (task.get("sharing") or {}).get("gain_points") is not None]
    if not facts.summary.get("sharing") or len(facts.tasks) < 2 or not tasks:
        return None
    names, figures = [task["name"] for task in tasks], [task["sharing"] for task in tasks]
    gained = sum(its["gain_points"] > 0.0 for its in figures)
    alt = f"Errors alone and with sharing by site, weights of the experts, and noise; {gained} of {len(tasks)} err less"
    caption = "Errors alone and with sharing, what each expert weighs at the end, and how noisy labels look"
    title = "Sharing" if len(tasks) > SHARING_LIMIT else ""
    return Figure(lambda path: draw_sharing(names, figures, path, title), caption, alt)


def _relatedness(facts: RunFacts) -> Figure | None:
    found = related_of(facts)
    if found is None:
        return None
    caption = f"Cosines of the sites' own models, {found.shown}: 1 is alike, 0 unrelated, -1 opposite"
    caption += "; they tell of each site's model"
    return Figure(partial(draw_relatedness, found.names, found.similarity), caption, f"{caption}. {found.told}")


def related_of(facts: RunFacts) -> Related | None:
    """Which sites are alike; None where that is not known."""
    if facts.models is None or len(facts.models) < 2:
        return None
    order = pictures.in_order(facts)
    return related([facts.names[site] for site in order], facts.models[order])


def _calibration(facts: RunFacts) -> Figure | None:
    panel = pictures.reliability(facts)
    if panel is None:
        return None
    caption = "Probability given to +1 before the label was known, and how often it was true; band: 95 %"
    draw = partial(draw_picture, Picture([panel], 1))
    return Figure(draw, caption, f"Reliability of probabilities. {calibration_in_words(facts)}")


def calibration_in_words(facts: RunFacts) -> str:
    """How far probabilities were off; of a run with records of labelled examples."""
    off = pictures.calibration_error(facts)
    assert off is not None
    return (
        f"Where a probability was given, the share that came true was off by {100.0 * off:.1f} points in the mean"
        f" (log loss {number(facts.summary.get('log_loss'))})"
    )


def _time(facts: RunFacts) -> Figure | None:
    if not facts.lanes:
        return None
    simulated = facts.summary["driver"] == "simulation"
    faults = [fault for fault in facts.faults if fault.from_s <= facts.summary["seconds"]]
    place = {facts.names[site]: place for place, site in enumerate(pictures.in_order(facts))}
    lanes = sorted(facts.lanes, key=lambda lane: place[lane.name])
    draw = partial(draw_timeline, lanes, title="", faults=faults, virtual=simulated)
    caption = "Who worked and who waited: the first sync rounds" + (" (simulated clock)" if simulated else "")
    return Figure(draw, caption, f"{caption}, a lane for each site.")
