"""The journal of examples: what was committed is there again, whatever happened; what is needed no more is removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drom_net.algorithms.features import SparseVector
from drom_net.core.errors import CheckpointError
from drom_net.data.live import Decided
from drom_net.storage import journal as module
from drom_net.storage.journal import Example, ExampleJournal, Sender

ALICE, BOB = b"a" * 16, b"b" * 16


def example(number: float) -> Example:
    return np.array([number, 1.0 / 3.0]), 1.0 if number % 2 else -1.0


def numbers(examples: list[Example]) -> list[float]:
    return [float(features[0]) for features, _ in examples]  # type: ignore[arg-type]


def segment(folder: Path) -> Path:
    """The only one."""
    [path] = (folder / "spool").iterdir()
    return path


def test_what_was_committed_is_there_again_bit_for_bit(tmp_path: Path) -> None:
    sparse = SparseVector(np.array([3, 9], dtype=np.int32), np.array([0.1, -2.0]))
    with ExampleJournal(tmp_path / "spool") as journal:
        journal.add([example(0), (sparse, 1.0)], sender=Sender(ALICE, 7))
        journal.decide(Decided((4, 5), None))
        journal.commit()
        journal.add([example(2)], position=[11, 200, 3, b"tail"])
        journal.decide(Decided((6,), 9))
        journal.commit()
    again = ExampleJournal(tmp_path / "spool")
    first, examples, decided = again.load()
    assert (first, decided) == (0, Decided((4, 5, 6), 9))
    assert examples[0][0].tobytes() == example(0)[0].tobytes() and examples[0][1] == -1.0  # type: ignore[union-attr]
    found = examples[1][0]
    assert isinstance(found, SparseVector)
    assert found.indices.tolist() == [3, 9] and found.values.tobytes() == sparse.values.tobytes()
    assert again.num_accepted == 3 and again.position == [11, 200, 3, b"tail"]
    assert again.has(Sender(ALICE, 7)) and not again.has(Sender(ALICE, 8)) and not again.has(Sender(BOB, 1))


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    with ExampleJournal(tmp_path / "spool") as journal:
        journal.add([example(0)])
        journal.commit()
        journal.add([example(1)], sender=Sender(ALICE, 1))
    again = ExampleJournal(tmp_path / "spool")
    assert numbers(again.load().examples) == [0.0]
    assert not again.has(Sender(ALICE, 1))


@pytest.mark.parametrize("kept", [1, 5, 8, 20])
def test_a_torn_end_is_cut_off_as_a_whole(tmp_path: Path, kept: int) -> None:
    with ExampleJournal(tmp_path / "spool") as journal:
        journal.add([example(0)])
        journal.commit()
        whole = segment(tmp_path).read_bytes()
        journal.add([example(1), example(2)])
        journal.commit()
    segment(tmp_path).write_bytes(segment(tmp_path).read_bytes()[: len(whole) + kept])
    again = ExampleJournal(tmp_path / "spool")
    assert numbers(again.load().examples) == [0.0]
    assert again.cut_bytes == kept
    again.add([example(3)])
    again.commit()
    again.close()
    assert numbers(ExampleJournal(tmp_path / "spool").load().examples) == [0.0, 3.0]


def test_an_end_of_zeros_as_after_a_power_loss_is_cut_off(tmp_path: Path) -> None:
    with ExampleJournal(tmp_path / "spool") as journal:
        journal.add([example(0)])
        journal.commit()
    with segment(tmp_path).open("ab") as file:
        file.write(bytes(4096))
    assert numbers(ExampleJournal(tmp_path / "spool").load().examples) == [0.0]


def test_damage_in_the_middle_is_told_and_nothing_is_dropped_silently(tmp_path: Path) -> None:
    with ExampleJournal(tmp_path / "spool") as journal:
        for number in range(3):
            journal.add([example(number)])
            journal.commit()
    data = bytearray(segment(tmp_path).read_bytes())
    data[len(data) // 2] ^= 1
    segment(tmp_path).write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged at byte"):
        ExampleJournal(tmp_path / "spool").load()


@pytest.mark.parametrize("bit", [0, 7, 20, 31])
@pytest.mark.parametrize("waiting", [1, 20])
def test_damage_to_the_length_of_a_frame_is_no_torn_end(tmp_path: Path, bit: int, waiting: int) -> None:
    """All that was accepted behind it is still there."""
    with ExampleJournal(tmp_path / "spool") as journal:
        journal.add([example(0)])
        journal.commit()
        begin = segment(tmp_path).stat().st_size
        for number in range(1, 100):
            for _ in range(waiting):  # so many entries in one frame
                journal.add([example(number)])
            journal.commit()
    data = bytearray(segment(tmp_path).read_bytes())
    data[begin + bit // 8] ^= 1 << bit % 8
    segment(tmp_path).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"damaged at byte {begin}: examples that were accepted are lost"):
        ExampleJournal(tmp_path / "spool").load()
    assert segment(tmp_path).read_bytes() == data


def test_damage_to_the_length_of_a_segments_first_frame_is_told_too(tmp_path: Path) -> None:
    with ExampleJournal(tmp_path / "spool") as journal:
        for number in range(3):
            journal.add([example(number)])
            journal.commit()
    data = bytearray(segment(tmp_path).read_bytes())
    data[2] ^= 1
    segment(tmp_path).write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged: examples that were accepted are lost"):
        ExampleJournal(tmp_path / "spool").load()


def test_a_missing_segment_is_told(tmp_path: Path) -> None:
    for number in range(3):
        with ExampleJournal(tmp_path / "spool") as journal:
            journal.load()
            journal.add([example(number)])
            journal.commit()
    (tmp_path / "spool" / "segment-0000000001.drom").unlink()
    with pytest.raises(CheckpointError, match="does not go on from the segment before it"):
        ExampleJournal(tmp_path / "spool").load()
    (tmp_path / "spool" / "segment-0000000000.drom").unlink()
    with pytest.raises(CheckpointError, match=r"examples from 2 to 3 and .* and the node would go on from example 0"):
        ExampleJournal(tmp_path / "spool").load()


@pytest.mark.parametrize(
    ("version", "told"),
    [(1, "version 1 of the format: an earlier drom_net"), (3, "version 3 of the format: a later drom_net")],
)
def test_a_journal_of_another_version_is_told_with_who_has_written_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, told: str
) -> None:
    with monkeypatch.context() as other, ExampleJournal(tmp_path / "spool") as journal:
        other.setattr(module, "_VERSION", version)
        journal.add([example(0)])
        journal.commit()
    with pytest.raises(CheckpointError, match=told):
        ExampleJournal(tmp_path / "spool").load()


def test_segments_that_nobody_needs_are_removed_and_what_is_true_of_them_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 1)  # one commit each
    with ExampleJournal(tmp_path / "spool") as journal:
        for number in range(6):
            journal.add([example(number)], sender=Sender(ALICE, number + 1), position=[number])
            journal.commit()
        journal.decide(Decided((7, 8), None))
        journal.commit()
        journal.add([example(6)])
        journal.commit()
        journal.trim(3, 3)
        assert len(list((tmp_path / "spool").iterdir())) == 5
        assert numbers(ExampleJournal(tmp_path / "spool").load(3, 3).examples) == [3.0, 4.0, 5.0, 6.0]
        # All six are taken, but that rounds 7 and 8 are idle must still be known to who goes on from round 6.
        journal.trim(6, 6)
        assert ExampleJournal(tmp_path / "spool").load(6, 6).decided.idle == (7, 8)
        journal.trim(6, 8)
    again = ExampleJournal(tmp_path / "spool")
    loaded = again.load(6, 8)
    assert (loaded.first, numbers(loaded.examples), loaded.decided.idle) == (6, [6.0], ())
    assert again.num_accepted == 7 and again.position == [5] and again.has(Sender(ALICE, 6))
    with pytest.raises(CheckpointError, match="has the examples from 6 to 7"):
        ExampleJournal(tmp_path / "spool").load(5, 5)


def test_idle_rounds_that_are_missing_are_told_as_examples_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them rounds that were said to be idle would be given examples."""
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 1)
    with ExampleJournal(tmp_path / "spool") as journal:
        for rounds in ((1,), (2, 3), (4,)):
            journal.decide(Decided(rounds, None))
            journal.commit()
        assert ExampleJournal(tmp_path / "spool").load(0, 3).decided.idle == (4,)  # the others are behind it
        journal.trim(0, 3)
    assert ExampleJournal(tmp_path / "spool").load(0, 3).decided.idle == (4,)
    told = "what was decided behind round 3, and the node would go on from example 0 and round 2"
    with pytest.raises(CheckpointError, match=told):
        ExampleJournal(tmp_path / "spool").load(0, 2)


def test_with_keep_all_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 1)
    with ExampleJournal(tmp_path / "spool", keeps_all=True) as journal:
        for number in range(4):
            journal.add([example(number)])
            journal.commit()
        journal.trim(4, 4)
    assert numbers(ExampleJournal(tmp_path / "spool").load().examples) == [0.0, 1.0, 2.0, 3.0]


def test_the_clients_that_were_heard_last_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLIENTS", 2)
    with ExampleJournal(tmp_path / "spool") as journal:
        for client in (ALICE, BOB, ALICE, b"c" * 16):
            journal.add([example(0)], sender=Sender(client, 1))
        journal.commit()
        assert journal.has(Sender(ALICE, 1)) and not journal.has(Sender(BOB, 1))


def test_of_segments_that_are_not_needed_only_the_beginning_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keep: all a node that has run for weeks starts as fast as another."""
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 1)
    with ExampleJournal(tmp_path / "spool", keeps_all=True) as journal:
        for number in range(4):
            journal.add([example(number)])
            journal.commit()
    read: list[str] = []
    monkeypatch.setattr(ExampleJournal, "_read", lambda self, path, **its: read.append(path.name) or [[]])
    with pytest.raises(CheckpointError):  # as if there were nothing in the last one
        ExampleJournal(tmp_path / "spool").load(4, 4)
    assert read == ["segment-0000000003.drom"]


@pytest.mark.parametrize("kept", [0, 5, 20])
def test_a_segment_that_was_not_begun_as_a_whole_never_was(tmp_path: Path, kept: int) -> None:
    for number in range(2):
        with ExampleJournal(tmp_path / "spool") as journal:
            journal.load()
            journal.add([example(number)])
            journal.commit()
    last = tmp_path / "spool" / "segment-0000000001.drom"
    last.write_bytes(last.read_bytes()[:kept])
    journal = ExampleJournal(tmp_path / "spool")
    assert numbers(journal.load().examples) == [0.0]
    journal.add([example(2)])
    journal.commit()
    journal.close()
    assert numbers(ExampleJournal(tmp_path / "spool").load().examples) == [0.0, 2.0]
