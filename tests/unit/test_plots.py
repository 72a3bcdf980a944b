"""Figures: well-formed, the same every time, readable in both themes, and small."""

import re
from xml.etree import ElementTree

import pytest

from umimill import plots, plots_refine, plots_run, svg
from umimill.barcode_sums import RankPoint
from umimill.summary import bin_title

FATES = {"voted": 80, "unmatched": 15, "too_short": 5}
CLOCKS = {"start": 0.5, "match": 2.0, "other": 0.1}


def draw_shares(width=plots.WIDE, rows=(("L1", FATES), ("L2", {}))):
    return plots.share_bars(rows, plots.FATE_COLORS, width=width, name="shares", label="Finding.")


def draw_seconds(width=plots.WIDE):
    rows = [("tally", CLOCKS), ("gather", {"write": 0.2})]
    return plots_run.second_bars(rows, width=width, name="seconds", label="Finding.")


def draw_rates(width=plots.WIDE):
    bars = [plots_run.RateBar("tally", 1e5, 2e5, 4e5), plots_run.RateBar("gather", 9e5, 9e5, 9e5)]
    return plots_run.rate_dots(bars, width=width, name="rates", label="Finding.")


def draw_memory(width=plots.WIDE, jobs=3):
    points = [
        plots_run.MemoryPoint(stage, 400_000_000, 150_000_000 + 10_000 * (i % 999))
        for i in range(jobs)
        for stage in ("tally", "plan", "elsewhere")
    ]
    return plots_run.memory_scatter(points, width=width, name="memory", label="Finding.")


def draw_buckets(width=plots.WIDE, buckets=8):
    rows = [("L1", [(10 * i, i) for i in range(buckets)]), ("L2", [(5, 0)])]
    return plots_run.bucket_bars(rows, width=width, name="buckets", label="Finding.")


def draw_sizes(width=plots.WIDE, samples=3):
    rows = [(f"S{i}", [(5, 5), (3, 7)][: i % 3]) for i in range(samples)]
    return plots.size_panels(rows, ["1", "2-3"], width=width, name="sizes", label="Finding.")


def draw_heat(width=plots.WIDE, rows=3, columns=9):
    made = [(f"sample-{i}", [((i * j) % 7) / 7 for j in range(columns)]) for i in range(rows)]
    return plots.heat_map(
        made,
        [str(j) for j in range(columns)],
        plots.SHARE_EDGES,
        width=width,
        name="heat",
        label="Finding.",
        axis="bucket",
    )


def draw_posteriors(width=plots.WIDE, bins=(("0", 0, 70), ("0.5", 3, 2), ("0.9", 900, 0))):
    return plots_refine.posterior_bars(bins, width=width, name="posteriors", label="Finding.")


def draw_before(width=plots.WIDE):
    bins = [("1", 900, 20), ("2-3", 0, 0), ("4-7", 8, 9)]
    return plots_refine.size_steps(bins, width=width, name="before", label="Finding.")


def draw_depths(width=plots.WIDE, error=2e-3):
    bins = [("1", error / 2, error), ("2-3", error, error)]
    return plots_refine.error_dots(bins, width=width, name="depths", label="Finding.")


def draw_ranks(width=plots.WIDE, samples=3, molecules=900):
    ranks = sorted({1, molecules, *(round(1.12**k) for k in range(60) if 1.12**k < molecules)})
    curves = [[RankPoint(f"S{i}", r, 1 + 99 // r, 0.5) for r in ranks] for i in range(samples)]
    return plots_refine.rank_lines(
        curves[0], curves[1:], width=width, name="ranks", label="Finding."
    )


DRAWINGS = (
    draw_shares,
    draw_seconds,
    draw_rates,
    draw_memory,
    draw_buckets,
    draw_sizes,
    draw_heat,
    draw_posteriors,
    draw_before,
    draw_depths,
    draw_ranks,
)


def parsed(text):
    return ElementTree.fromstring(text.replace("<svg", '<svg xmlns:xlink="x"', 1))


def words(text):
    return ["".join(node.itertext()) for node in parsed(text).iter("text")]


@pytest.mark.parametrize("width", [plots.WIDE, plots.NARROW])
@pytest.mark.parametrize("draw", DRAWINGS)
def test_every_figure_is_a_plain_labelled_svg(draw, width):
    text = draw(width)
    root = parsed(text)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Finding."
    assert float(root.get("width")) <= width
    assert not re.search(r"https?:|<metadata|<!--|<image|<script|xmlns", text)
    assert "DejaVu" not in text


@pytest.mark.parametrize("draw", DRAWINGS)
def test_figures_are_the_same_every_time(draw):
    assert draw() == draw()


@pytest.mark.parametrize("draw", DRAWINGS)
def test_texts_and_lines_take_the_colours_of_the_page(draw):
    text = draw()
    assert "currentColor" in text or "var(--muted)" in text
    assert "#0102" not in text
    assert "#0103" not in text


@pytest.mark.parametrize("draw", DRAWINGS)
def test_ids_are_used_and_carry_the_name_of_the_figure(draw):
    text = draw()
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(#|href="#)([^)"]+)', text)
    assert set(used) == set(ids)
    assert all(name.startswith(draw().split(' id="')[1].split("-")[0]) for name in ids)


def test_the_users_own_matplotlibrc_changes_nothing():
    import matplotlib

    before = draw_rates()
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        assert draw_rates() == before


def test_labels_and_titles_are_escaped():
    text = plots.share_bars(
        [("<b>&", FATES)], plots.FATE_COLORS, name="shares", label='a "<b>" & c'
    )
    assert parsed(text).get("aria-label") == 'a "<b>" & c'
    assert "<b>&" in words(text)
    assert "<b>" not in text


def test_dollar_signs_and_underscores_are_text_not_formulas():
    assert "a_1$x$" in words(draw_shares(rows=[("a_1$x$", FATES)]))


def test_an_empty_library_says_so():
    assert "no reads" in words(draw_shares())
    assert "no reads" in words(draw_sizes())


def test_part_names_stand_on_bars_where_there_is_room():
    assert "voted 80.0%" in words(draw_shares())
    assert "too short 5.0%" not in words(draw_shares())


def test_one_bucket_has_one_whole_tick():
    text = plots_run.bucket_bars([("L1", [(5, 3)])], name="buckets", label="Finding.")
    assert [word for word in words(text) if word.startswith("1")] == ["1"]


@pytest.mark.parametrize(
    ("error", "title"),
    [(4e-2, "errors in 100 bases"), (2e-3, "errors in 1,000 bases"), (7e-6, "errors in 1,000,000")],
)
def test_errors_are_counted_in_bases_that_hold_some(error, title):
    assert any(word.startswith(title) for word in words(draw_depths(error=error)))


@pytest.mark.parametrize("draw", [draw_posteriors, draw_before, draw_ranks])
def test_counts_stand_on_powers_of_ten(draw):
    assert {"1", "10", "100"} <= set(words(draw()))


def test_one_molecule_is_a_dot():
    assert "<use" in draw_ranks(samples=1, molecules=1).split("rank of the molecule")[-1]


def test_lines_of_many_samples_stay_small():
    assert len(draw_ranks(samples=96)) < 3 * len(draw_ranks(samples=12))


def test_ten_thousand_jobs_stay_small():
    assert len(draw_memory(jobs=10_000)) < 60_000


def test_a_large_heat_map_stays_small():
    assert len(draw_heat(rows=96, columns=64)) < 800_000


def test_cells_of_a_heat_map_are_shaded_by_their_upper_edge():
    shades = plots.heat_map(
        [("A", [0.0, 0.02, 0.021, 1.0])],
        list("abcd"),
        plots.SHARE_EDGES,
        name="heat",
        label="Finding.",
        axis="x",
    )
    assert re.findall(r"var\(--level-(\d)\)", shades) == ["0", "1", "5"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (870, "870"), (1000, "1k"), (1260, "1.3k"), (12_400, "12k"), (2.5e6, "2.5M")],
)
def test_short_numbers(number, text):
    assert svg.short(number) == text


def test_long_titles_are_cut_in_the_middle():
    assert svg.shorten("abcdefghij", 10) == "abcdefghij"
    assert svg.shorten("patient-0001-week-12", 9) == "pati\N{HORIZONTAL ELLIPSIS}k-12"


def test_edges_of_bytes_are_halves():
    assert plots.level_edges(64) == (2, 4, 8, 16, 32, 64)


@pytest.mark.parametrize("width", [900 / 3, 900 / 2, 360 / 2])
@pytest.mark.parametrize("bins", [1, 5, 13, 24])
def test_titles_of_ticks_do_not_touch(width, bins):
    titles = [bin_title(k) for k in range(bins)]
    step = plots.tick_step(titles, width)
    # A letter has about 6.5 pixels.
    longest = 6.5 * max(map(len, titles[::step]))
    assert step >= bins or longest < step * width / bins
