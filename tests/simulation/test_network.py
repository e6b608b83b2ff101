"""Links and speeds: what is drawn, in which order messages arrive, and what is lost."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from drom_net.simulation.network import (
    Distribution,
    Network,
    NetworkSettings,
    Partition,
    Stragglers,
    draw_factors,
    parse_stragglers,
)

parse = Distribution.parse


def network(*, nodes: int = 4, seed: int = 0, **settings: object) -> Network:
    return Network(NetworkSettings(**settings), nodes, seed)  # type: ignore[arg-type]


# Distributions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50ms", Distribution("constant", 0.05)),
        ("0", Distribution("constant", 0.0)),
        ("1e-3s", Distribution("constant", 1e-3)),
        (" 3 min ", Distribution("constant", 180.0)),
        ("20ms..80ms", Distribution("uniform", 0.02, 0.08)),
        ("0..1.5s", Distribution("uniform", 0.0, 1.5)),
        ("normal(50ms,10ms)", Distribution("normal", 0.05, 0.01)),
        ("lognormal(50ms, 0.5)", Distribution("lognormal", 0.05, 0.5)),
        ("exponential( 50ms )", Distribution("exponential", 0.05)),
    ],
)
def test_a_distribution_is_read_from_text(text: str, expected: Distribution) -> None:
    read = parse(text)
    assert read.kind == expected.kind
    assert (read.first, read.second) == pytest.approx((expected.first, expected.second), rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "fast",
            "0.05",
            "20",
            "0..1",
            "-5ms",
            "50 m",
            "nan",
            "inf",
            "1e999",
            "80ms..20ms",
            "20ms..",
            "..5ms",
            "1..2..3",
            "50ms,10ms",
        ),
        *("normal(50ms)", "normal(50ms,-1ms)", "lognormal(50ms,0.5ms)", "exponential(50ms,1ms)", "gamma(1,2)"),
        *("normal(50ms,10ms) ms", "exponential()", True, None),
    ],
)
def test_any_other_text_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a time such as 50ms, .*, got \"") as caught:
        parse(text)
    assert str(caught.value).endswith(f'got "{text}"')


@pytest.mark.parametrize(
    "text",
    ["50ms", "20ms..80ms", "normal(50ms,10ms)", "normal(10ms,50ms)", "lognormal(50ms,0.5)", "exponential(50ms)"],
)
def test_what_is_drawn_is_never_negative_and_has_its_mean(text: str) -> None:
    rng, distribution = random.Random(3), parse(text)
    drawn = [distribution.draw(rng) for _ in range(20_000)]
    assert min(drawn) >= 0.0
    mean = sum(drawn) / len(drawn)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in drawn) / len(drawn))
    assert abs(mean - distribution.mean) <= 4.0 * deviation / math.sqrt(len(drawn)) + 1e-12
    assert (deviation < 1e-12) == (text == "50ms")


def test_the_shape_is_the_one_that_was_named() -> None:
    rng = random.Random(4)
    uniform = [parse("20ms..80ms").draw(rng) for _ in range(5000)]
    assert 0.02 <= min(uniform) < 0.021
    assert 0.079 < max(uniform) <= 0.08
    lognormal = sorted(parse("lognormal(50ms,0.5)").draw(rng) for _ in range(5000))
    assert lognormal[2500] == pytest.approx(0.05, rel=0.05)  # the median
    assert lognormal[4207] == pytest.approx(0.05 * math.exp(0.5), rel=0.05)  # one sigma above it
    exponential = [parse("exponential(50ms)").draw(rng) for _ in range(5000)]
    assert sum(x > 0.05 for x in exponential) / 5000 == pytest.approx(math.exp(-1.0), abs=0.03)
    cut = [parse("normal(0,10ms)").draw(rng) for _ in range(5000)]
    assert sum(x == 0.0 for x in cut) / 5000 == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("text", "zero"),
    [
        ("0", True),
        ("0ms..0s", True),
        ("lognormal(0,2)", True),
        ("0..1s", False),
        ("normal(0,1s)", False),
        ("1us", False),
    ],
)
def test_what_is_always_zero_is_known(text: str, zero: bool) -> None:
    assert parse(text).is_zero is zero


# Messages


def test_on_a_plain_link_a_message_takes_its_latency() -> None:
    link = network(latency=parse("50ms"))
    assert link.deliver(0, 1, 1000, 2.0) == [2.05]


def test_without_reordering_a_link_keeps_the_order() -> None:
    """As TCP: an arrival is never before the last one of its link; other links are not held up."""
    link = network(latency=parse("exponential(50ms)"), duplicate=0.3)
    arrivals = [at for step in range(500) for at in link.deliver(0, 1, 10, step * 1e-3)]
    assert arrivals == sorted(arrivals)
    assert len(set(arrivals)) < len(arrivals)  # some had to wait for those before them
    plain = network(latency=parse("exponential(50ms)"))
    firsts = [plain.deliver(sender, 3, 10, 0.0)[0] for sender in (0, 1, 2)]
    assert firsts != sorted(firsts) or len(set(firsts)) == 3


def test_with_reordering_some_are_overtaken_and_the_others_keep_their_order() -> None:
    link = network(latency=parse("50ms"), reorder=0.25)
    arrivals = [link.deliver(0, 1, 10, step * 1e-3)[0] for step in range(1000)]
    latencies = [at - step * 1e-3 for step, at in enumerate(arrivals)]
    held_back = [step for step, latency in enumerate(latencies) if latency > 0.0501]
    assert 200 < len(held_back) < 300  # 250 are expected, 14 is a deviation
    assert all(latencies[step] == pytest.approx(0.101) for step in held_back)
    assert arrivals[held_back[0] + 1] < arrivals[held_back[0]]
    kept = [at for step, at in enumerate(arrivals) if step not in held_back]
    assert kept == sorted(kept)


def test_who_is_held_back_is_overtaken_also_without_any_latency() -> None:
    link = network(latency=parse("0"), reorder=0.5)
    arrivals = [link.deliver(0, 1, 10, 0.0)[0] for _ in range(20)]
    assert set(arrivals) == {0.0, 1e-3}
    assert arrivals != sorted(arrivals)


def test_a_line_sends_one_message_after_the_other() -> None:
    """1000 bytes at 10,000 bytes/s take 0.1 s; both lines are used at once, so a message alone takes it once."""
    link = network(latency=parse("50ms"), bandwidth_bytes_per_s=1e4)
    arrivals = [link.deliver(0, receiver, 1000, 0.0)[0] for receiver in (1, 2, 3)]
    assert arrivals == pytest.approx([0.15, 0.25, 0.35])
    assert link.deliver(0, 1, 1000, 10.0) == pytest.approx([10.15])  # the line has been free for long
    assert link.deliver(1, 0, 1000, 10.0) == pytest.approx([10.15])  # its other direction too


def test_a_line_receives_one_message_after_the_other() -> None:
    link = network(latency=parse("50ms"), bandwidth_bytes_per_s=1e4)
    arrivals = [link.deliver(sender, 3, 1000, 0.0)[0] for sender in (0, 1, 2)]
    assert arrivals == pytest.approx([0.15, 0.25, 0.35])
    assert link.deliver(0, 1, 500, 0.0) == pytest.approx([0.2])  # after its first one, on another line


def test_a_slow_message_does_not_hold_up_the_line_before_it_is_there() -> None:
    """The receiving line is taken where the bytes arrive, in whatever order they were sent; it never has two."""
    rng = random.Random(5)
    link = network(nodes=200, latency=parse("0..2s"), bandwidth_bytes_per_s=1e4)
    now, taken = 0.0, []
    for sender in range(150):
        now += 0.02 * rng.random()
        size = rng.randrange(1, 300)
        (end,) = link.deliver(sender, 199, size, now)
        taken.append((end - size / 1e4, end))
        assert now + size / 1e4 - 1e-12 <= end
    assert any(later[1] < earlier[0] for earlier, later in itertools.pairwise(taken))
    ordered = sorted(taken)
    assert all(first[1] <= second[0] + 1e-9 for first, second in itertools.pairwise(ordered))


@pytest.mark.parametrize(("loss", "duplicate"), [(0.2, 0.0), (0.0, 0.2), (0.5, 0.5), (1.0, 1.0), (0.0, 0.0)])
def test_the_shares_of_lost_and_doubled_messages(loss: float, duplicate: float) -> None:
    """Within four deviations of a binomial count."""
    link = network(loss=loss, duplicate=duplicate, seed=7)
    copies = [len(link.deliver(0, 1, 10, step * 1e-3)) for step in range(10_000)]
    for number, probability in ((0, loss), (2, (1.0 - loss) * duplicate)):
        band = 4.0 * math.sqrt(10_000 * probability * (1.0 - probability))
        assert abs(copies.count(number) - 10_000 * probability) <= band


def test_what_crosses_a_partition_is_lost_while_it_lasts() -> None:
    cut = Partition((frozenset({0, 1}), frozenset({2})), 1.0, 2.0)
    link = network(nodes=5, latency=parse("10ms"), partitions=(cut,))
    assert link.deliver(0, 2, 10, 0.99) == [1.0]  # it had left before
    for sender, receiver in ((0, 2), (2, 0), (0, 3), (3, 2)):
        assert link.deliver(sender, receiver, 10, 1.0) == []
        assert link.deliver(sender, receiver, 10, 1.99) == []
    assert link.deliver(0, 1, 10, 1.5) == [1.51]
    assert link.deliver(3, 4, 10, 1.5) == [1.51]  # those in no group are together
    assert link.deliver(0, 2, 10, 2.0) == [2.01]


def test_a_seed_is_a_network() -> None:
    def arrivals(seed: int) -> list[list[float]]:
        link = network(latency=parse("0..1s"), loss=0.2, duplicate=0.2, reorder=0.2, seed=seed)
        return [link.deliver(0, 1, 10, float(step)) for step in range(50)]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


# Speeds


def test_stragglers_are_read_from_text() -> None:
    assert parse_stragglers("10%:5x") == (Stragglers(0.1, 5.0),)
    assert parse_stragglers(" 10 % : 5x, 2.5%:1.5x") == (Stragglers(0.1, 5.0), Stragglers(0.025, 1.5))
    assert parse_stragglers("") == ()


@pytest.mark.parametrize("text", ["10%", "10:5x", "10%:5", "-1%:5x", "x%:5x", "10%:5x 1%:2x"])
def test_other_stragglers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected shares and how much slower .*, such as 10%:5x, got \""):
        parse_stragglers(text)


@pytest.mark.parametrize("text", ["0%:5x", "10%:0x", "10%:5x, 1%:0.0x", "10%:1e999x"])
def test_stragglers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a share and a factor above 0, got"):
        parse_stragglers(text)


@pytest.mark.parametrize(
    "text", ["0", "50ms", "1.5min", "20ms..80ms", "normal(50ms,10ms)", "lognormal(50ms,0.5)", "exponential(1ms)"]
)
def test_a_distribution_is_written_as_it_is_read(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)


def test_stragglers_are_at_most_all() -> None:
    assert len(parse_stragglers("70%:5x, 30%:2x")) == 2
    with pytest.raises(ValueError, match="at most 100 %"):
        parse_stragglers("70%:5x, 40%:2x")


def test_stragglers_are_a_share_of_the_tasks_drawn_from_the_seed() -> None:
    some = parse_stragglers("10%:5x, 20%:2x")
    factors = draw_factors(some, 50, seed=1)
    assert {factor: factors.count(factor) for factor in set(factors)} == {5.0: 5, 2.0: 10, 1.0: 35}
    assert factors == draw_factors(some, 50, seed=1) != draw_factors(some, 50, seed=2)
    assert draw_factors((), 3, seed=1) == [1.0] * 3
