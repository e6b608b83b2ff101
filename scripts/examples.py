"""Writes drom_net/examples, the data of `drom-net init --example`: invented, small, and drawn from one seed.

python scripts/examples.py makes them anew; a test keeps them in step.
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "drom_net" / "examples"
PUMPS = {"north": 240, "south": 180, "harbor": 90}
BRANCHES = ("Leeds", "York", "Hull", "Whitby")


def chance(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def pump_rows(draws: random.Random, site: str, count: int) -> list[dict[str, object]]:
    """What a pump's log has: raw units, a model, missing readings, and whether it needed service within the week."""
    own = {"north": 0.2, "south": -0.2, "harbor": 0.4}[site]
    rows: list[dict[str, object]] = []
    for _ in range(count):
        temperature, vibration, hours = draws.gauss(62, 8), draws.gauss(2.4, 0.7), draws.randint(50, 900)
        model = draws.choice(["A40", "A40", "A60"])
        z = 0.1 * (temperature - 62) + 1.5 * (vibration - 2.4) + 0.004 * (hours - 475) + own + (model == "A60") * 0.8
        rows.append(
            {
                "model": model,
                "temperature": round(temperature, 1),
                "vibration": "" if draws.random() < 0.08 else round(vibration, 2),
                "pressure": round(draws.gauss(5.1, 0.5), 2),
                "hours": hours,
                "service": "yes" if draws.random() < chance(1.6 * z) else "no",
            }
        )
    return rows


def mail_rows(draws: random.Random, count: int) -> list[dict[str, object]]:
    spam = ["prize", "free", "offer", "winner", "urgent", "account", "click", "bonus", "discount", "loan"]
    ham = ["meeting", "report", "invoice", "lunch", "project", "schedule", "notes", "review", "draft", "agenda"]
    common = ["please", "thanks", "today", "tomorrow", "hello", "team", "update", "question", "attached", "week"]
    rows: list[dict[str, object]] = []
    for _ in range(count):
        is_spam = draws.random() < 0.4
        words = draws.choices(spam if is_spam else ham, k=draws.randint(1, 3))
        words += draws.choices(common, k=draws.randint(2, 6)) + draws.choices(spam + ham, k=1)
        draws.shuffle(words)
        rows.append(
            {
                "mailbox": draws.choice(["anna", "ben", "chris"]),
                "links": draws.randint(0, 2) + 2 * is_spam * draws.randint(0, 1),
                "text": " ".join(words).capitalize() + ".",
                "kind": "spam" if is_spam else "mail",
            }
        )
    return rows


def csv(rows: list[dict[str, object]]) -> str:
    lines = [",".join(rows[0])]
    for row in rows:
        lines.append(",".join(str(value) for value in row.values()))
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """The text of each file, by its name under drom_net/examples."""
    draws = random.Random(7)
    pumps = {site: pump_rows(draws, site, count) for site, count in PUMPS.items()}
    made = {f"pumps/pump-{site}.csv": csv(rows) for site, rows in pumps.items()}
    made["pumps/pumps.yaml"] = f"""\
# Three pump stations, each with a table of its own: will a pump need service within the week?
#   drom-net check pumps.yaml        says what is in it, and starts nothing
#   drom-net run pumps.yaml          a process for each station, and a reducer

data:
  files: pump-{{task}}.csv
  tasks: [{", ".join(PUMPS)}]
  label: service
  positive: "yes"
  negative: "no"
  columns:
    model: {{kind: category, levels: [A40, A60]}}
    temperature: number
    vibration: {{kind: number, missing: true}}
    pressure: number
    hours: number
"""
    made["mail/mail.csv"] = csv(mail_rows(draws, 600))
    made["mail/mail.yaml"] = """\
# Three mailboxes in one table: is a message spam?
#   drom-net run mail.yaml

data:
  files: mail.csv
  task_column: mailbox
  label: kind
  positive: spam
  negative: mail
  columns:
    links: number
    text: text
"""
    kinds = """\
  columns:
    model: {kind: category, levels: [A40, A60]}
    temperature: number
    vibration: {kind: number, missing: true}
    pressure: number
    hours: number
"""
    for site, rows in pumps.items():
        plain = [{key: None if value == "" else value for key, value in row.items()} for row in rows]
        made[f"live/{site}.jsonl"] = "".join(json.dumps(row) + "\n" for row in plain)
    made["live/live.yaml"] = f"""\
# The pumps again, as lines that come while the cluster runs. Here the files are whole, and the run ends with them.
#   drom-net run live.yaml
# To go on for ever, leave `follow` out: each line that is added to a file is learned. Or let applications ask and tell:
#   source: {{bind: "ipc://{{task}}.sock"}}          from drom_net.client import Site

data:
  dataset: live
  tasks: [{", ".join(PUMPS)}]
  label: service
  positive: "yes"
  negative: "no"
{kinds}
source:
  file: "{{task}}.jsonl"
  follow: false
  keep: all
"""
    for branch in BRANCHES:
        made[f"star/{branch}.csv"] = csv(pump_rows(draws, "south", 120))
    made["star/star.yaml"] = f"""\
# Four branches and a reducer, started by hand, in five shells and any order:
#   drom-net reducer star.yaml --out runs/star
#   drom-net worker star.yaml --task Leeds --out runs/star       (and York, Hull, Whitby)
#   drom-net merge runs/star                                     afterwards: one run directory
# On several hosts `endpoint` names the reducer's, every host has this file and its own table, and keys keep others out:
#   security: {{keys: keys}}                                       drom-net keys create star.yaml makes them

data:
  files: "{{task}}.csv"
  tasks: [{", ".join(BRANCHES)}]
  label: service
  positive: "yes"
  negative: "no"
{kinds}
reducer:
  endpoint: tcp://127.0.0.1:5599
"""
    return made


if __name__ == "__main__":
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{FOLDER}\n")
