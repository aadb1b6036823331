"""The commands ocelad figure and ocelad reproduce."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from command import kill_four_times, run
from synthetic_reviews import write_original, write_stars, write_top5000

from ocelad.evaluation.streams.reviews import find_domains
from ocelad.lab.figures import FIGURES, Claim, Figure, FigureData
from ocelad.lab.figures.figure_folder import FigureFolder
from ocelad.lab.figures.html_report import ReportFigure, make_report

# Two methods on three streams, evaluated at rounds 3000 and 6000.
SMALL = ("--trials", "3", "--set", "methods=rice-hinge saol", "--set", "every=3000", "--backend", "threads")


def count(runner, reviews_folder, /, *, trials, scale, word):
    return {"numbers": {"trial": np.arange(trials), "value": scale * np.arange(trials), "word": [word] * trials}}


def draw(data):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    ax.plot(data.tables["numbers"]["trial"], data.tables["numbers"]["value"])
    return figure


def make_claims(data):
    total = data.tables["numbers"]["value"].sum()
    return [
        Claim("the sum <of all>", "3", f"{total:g}", bool(total == 3), "for a & reason"),
        Claim("the word", "-", data.metadata["settings"]["word"], None),
    ]


@pytest.fixture
def toy(monkeypatch):
    """Replace all figures by one that takes no time to compute."""
    figure = Figure(
        "toy", "Numbers", count, draw, make_claims, None, {"trials": 3, "scale": 1.0, "word": "a b"}, {"trials": 2}
    )
    for name in list(FIGURES):
        monkeypatch.delitem(FIGURES, name)
    monkeypatch.setitem(FIGURES, "toy", figure)
    return figure


class TestFigure:
    def test_is_computed_once_and_can_be_redrawn(self, tmp_path):
        printed = run("figure", "3", *SMALL, cwd=tmp_path)
        folder = tmp_path / "ocelad-figures" / "figure-3"
        assert {path.name for path in folder.iterdir()} == {
            "trials.jsonl", "curves.csv", "overall.csv", "drift.csv", "methods.csv", "figure.png",
        }  # fmt: skip
        assert "RICE-OCELAD, hinge" in printed.stdout
        assert "Computed in" in printed.stdout
        assert "tracking: 3 of 3 trials" in printed.stderr
        again = run("figure", "3", *SMALL, cwd=tmp_path)
        assert "tracking: 3 of 3 trials" in again.stderr
        assert "tracking: 0 of 3 trials" not in again.stderr
        assert f"Data: {folder.relative_to(tmp_path)}\n" in printed.stdout
        (folder / "figure.png").unlink()
        (folder / "trials.jsonl").unlink()
        redrawn = run("figure", "3", "--redraw", "--picture", "svg", cwd=tmp_path)
        assert (folder / "figure.svg").read_text().lstrip().startswith("<?xml")
        assert redrawn.stderr == ""

    def test_settings_and_versions_are_in_the_files(self, toy, tmp_path):
        run("figure", "toy", "--set", "scale=2", "--set", "word=c", "--trials", "4", "--output", tmp_path)
        data = FigureData.load(tmp_path / "figure-toy")
        assert data.metadata["settings"] == {"trials": 4, "scale": 2.0, "word": "c"}
        assert data.metadata["versions"]["numpy"] == np.__version__
        assert data.tables["numbers"]["value"].tolist() == [0.0, 2.0, 4.0, 6.0]

    def test_sizes(self, toy, tmp_path):
        for options, size in (((), 3), (("--quick",), 2), (("--quick", "--trials", "5"), 5)):
            printed = json.loads(run("figure", "toy", *options, "--json", "--output", tmp_path).stdout)
            assert printed["settings"]["trials"] == size

    def test_parquet(self, toy, tmp_path):
        run("figure", "toy", "--format", "parquet", "--output", tmp_path)
        assert FigureData.load(tmp_path / "figure-toy").tables["numbers"]["trial"].tolist() == [0, 1, 2]
        assert run("figure", "toy", "--redraw", "--output", tmp_path).stdout

    def test_the_list(self, toy):
        printed = run("figure", "--list").stdout
        assert all(words in printed for words in ("Numbers", "trials=3", "scale=1.0", "word=a b", "trials=2"))
        assert json.loads(run("figure", "--list", "--json").stdout)["toy"]["title"] == "Numbers"

    @pytest.mark.parametrize(
        ("arguments", "code", "sentence"),
        [
            ((), 2, "name a figure: toy"),
            (("9",), 2, "there is no figure '9'; accepted: toy"),
            (("toy", "--set", "size=3"), 2, "'size=3' is not KEY=VALUE of figure toy; keys: trials, scale, word"),
            (("toy", "--set", "scale"), 2, "'scale' is not KEY=VALUE"),
            (("toy", "--set", "scale=much"), 2, "scale must be a number, such as 1.0; got 'much'"),
            (("toy", "--set", "trials=1.5"), 2, "trials must be a whole number, such as 3; got '1.5'"),
            (("toy", "--trials", "0"), 2, "0 is not in the range x>=1"),
            (("toy", "--backend", "dask"), 2, "--backend dask needs the scheduler's --address"),
            (("toy", "--address", "tcp://127.0.0.1:1"), 2, "--address needs --backend dask"),
            (("toy", "--redraw", "--quick"), 2, "--redraw uses the saved data"),
            (("toy", "--redraw"), 1, "there are no data in the folder"),
            (("toy", "--jobs", "0"), 2, "Invalid value for --jobs: 0 is neither -1 nor at least 1"),
            (
                ("toy", "--output", "file/folder"),
                2,
                "Invalid value for --output: cannot create the folder 'file/folder'",
            ),
        ],
    )
    def test_wrong_arguments(self, toy, tmp_path, arguments, code, sentence):
        (tmp_path / "file").touch()
        printed = run("figure", *arguments, cwd=tmp_path, code=code)
        assert sentence in " ".join(printed.stderr.split())

    def test_warns_before_it_replaces_data_of_other_settings(self, toy, tmp_path):
        run("figure", "toy", "--output", tmp_path)
        assert "replaced" not in run("figure", "toy", "--output", tmp_path).stderr
        assert "will be replaced: trials was 3" in run("figure", "toy", "--quick", "--output", tmp_path).stderr

    def test_a_wrong_setting_is_refused_before_the_warning(self, toy, tmp_path, monkeypatch):
        def check(*, trials, scale, word):
            if word == "wrong":
                raise ValueError("there is no such word")

        run("figure", "toy", "--output", tmp_path)
        monkeypatch.setitem(FIGURES, "toy", replace(toy, check=check))
        printed = run("figure", "toy", "--set", "word=wrong", "--output", tmp_path, code=2).stderr
        assert "there is no such word" in printed
        assert "replaced" not in printed

    def test_incomplete_data_are_not_drawn(self, toy, tmp_path):
        data = FigureData({"figure": "toy"}, {"numbers": {"trial": [0], "value": [1.0]}, "more": {"a": [1]}})
        data.save(tmp_path / "figure-toy")
        (tmp_path / "figure-toy" / "numbers.csv").unlink()
        assert "numbers is missing in" in run("figure", "toy", "--redraw", "--output", tmp_path, code=1).stderr

    def test_data_of_another_figure_are_not_drawn(self, toy, tmp_path):
        FigureData({"figure": "3"}, {"numbers": {"trial": [1]}}).save(tmp_path / "figure-toy")
        printed = run("figure", "toy", "--redraw", "--output", tmp_path, code=1)
        assert "are of figure '3'" in printed.stderr


class TestDownload:
    @pytest.fixture
    def reviews(self, toy, monkeypatch):
        """A figure that needs reviews, and has their folder in its data."""

        def locate(runner, reviews_folder, /, *, trials, scale, word):
            return {"numbers": {"trial": [0], "value": [3], "where": [str(reviews_folder)]}}

        monkeypatch.setitem(FIGURES, "toy", replace(toy, experiment=locate, needs_reviews=True))

    def test_downloads_the_reviews_and_reads_them(self, reviews, tmp_path, monkeypatch):
        def download(progress):
            progress(5_000_000, 10_000_000)
            return tmp_path / "cache"

        monkeypatch.setattr("ocelad.evaluation.streams.reviews.download_reviews", download)
        printed = run("figure", "toy", "--download", "--output", tmp_path)
        assert "reviews: 5 MB of 10" in printed.stderr
        assert FigureData.load(tmp_path / "figure-toy").tables["numbers"]["where"] == [str(tmp_path / "cache")]

    def test_downloads_only_on_request(self, reviews, tmp_path, monkeypatch):
        monkeypatch.setattr(
            "ocelad.evaluation.streams.reviews.download_reviews", lambda progress: pytest.fail("downloaded")
        )
        run("figure", "toy", "--data", tmp_path, "--output", tmp_path)
        assert FigureData.load(tmp_path / "figure-toy").tables["numbers"]["where"] == [str(tmp_path)]

    def test_data_and_download_exclude_each_other(self, reviews, tmp_path):
        printed = run("figure", "toy", "--download", "--data", tmp_path, "--output", tmp_path, code=2)
        assert "--download and --data exclude each other" in printed.stderr


class TestDomains:
    SMALL = ("--set", "pairs=300", "--set", "words=40", "--trials", "1", "--backend", "threads", "--jobs", "1")

    @pytest.fixture
    def reviews(self, tmp_path):
        """Reviews of four product types: dvd and kitchen are those of books and electronics, exchanged."""
        folder = write_top5000(tmp_path / "top5000")
        for domain, other in (("books", "kitchen"), ("electronics", "dvd")):
            for path in list(folder.glob(f"{domain}_*")):
                path.with_name(path.name.replace(domain, other)).write_bytes(path.read_bytes())
        return folder

    def test_other_product_types_have_a_folder_of_their_own(self, reviews, tmp_path):
        command = ("figure", "4", *self.SMALL, "--data", reviews)
        run(*command, cwd=tmp_path)
        printed = run(*command, "--domains", "kitchen,dvd", cwd=tmp_path)
        assert "figure-4-dvd-kitchen" in printed.stdout
        claims = json.loads(run(*command, "--domains", "kitchen,dvd", "--json", cwd=tmp_path).stdout)["claims"]
        remark = "the paper has the product types books and electronics"
        assert {
            (claim["paper"], claim["agrees"], claim["remark"]) for claim in claims if "learned" in claim["what"]
        } == {("-", None, remark)}
        assert "have other settings" not in printed.stderr
        folders = {path.name for path in (tmp_path / "ocelad-figures").iterdir()}
        assert folders == {"figure-4", "figure-4-dvd-kitchen"}
        for name, labels in (("figure-4", ["books", "electronics"]), ("figure-4-dvd-kitchen", ["dvd", "kitchen"])):
            data = FigureData.load(tmp_path / "ocelad-figures" / name)
            assert sorted(set(data.tables["points"]["label"].tolist())) == labels
            assert data.metadata["settings"]["domains"] == " ".join(labels)
        again = run(*command, "--set", "domains=dvd kitchen", cwd=tmp_path)  # the same setting, in another order
        assert re.search(r"embeddings by type: (\d+) of \1 trials", again.stderr)
        redrawn = run("figure", "4", "--redraw", "--domains", "dvd,kitchen", cwd=tmp_path)
        assert "figure-4-dvd-kitchen" in redrawn.stdout

    def test_a_change_of_the_question_on_other_product_types(self, reviews, tmp_path):
        sizes = ("--trials", "1", "--set", "pairs_before=300", "--set", "pairs_after=200", "--set", "words=40")
        command = ("figure", "6", *sizes, "--data", reviews, "--domains", "books,dvd", "--jobs", "1")
        content = json.loads(run(*command, "--backend", "threads", "--json", cwd=tmp_path).stdout)
        assert {claim["agrees"] for claim in content["claims"]} == {None}
        assert (tmp_path / "ocelad-figures" / "figure-6-books-dvd" / "figure.png").exists()

    @pytest.mark.parametrize(
        ("arguments", "code", "sentence"),
        [
            (
                ("5", "--domains", "books,cars"),
                1,
                "there are no reviews of 'cars'; accepted: books, dvd, electronics,",
            ),
            (("5", "--domains", "books"), 2, "'books' is not two different product types, such as books,electronics"),
            (("5", "--domains", "books,books"), 2, "is not two different product types"),
            (("5", "--domains", "a,b,c"), 2, "is not two different product types"),
            (("5", "--domains", "books,../x"), 2, "is not two different product types"),
            (("5", "--domains", "books,dvd", "--set", "domains=books dvd"), 2, "are the same setting"),
            (("3", "--domains", "books,dvd"), 2, "figure 3 has no product types; --domains is for figures 4, 5 and 6"),
        ],
    )
    def test_refuses(self, reviews, tmp_path, arguments, code, sentence):
        printed = run("figure", *arguments, "--data", reviews, cwd=tmp_path, code=code)
        assert sentence in re.sub(r"\s+", " ", printed.stderr)
        assert not list(tmp_path.glob("ocelad-figures/*"))

    def test_the_original_reviews_name_their_product_types_too(self, tmp_path):
        assert find_domains(write_original(tmp_path / "processed_acl")) == ("books", "electronics")
        assert find_domains(write_stars(tmp_path / "stars" / "processed_stars")) == ("books", "electronics")


@pytest.mark.heavy
def test_a_killed_figure_continues_with_the_same_result(tmp_path):
    command = [sys.executable, "-m", "ocelad", "figure", "3", "--trials", "12"]
    command += ["--set", "methods=comid", "--set", "every=500"]

    def files(folder):
        return {path.name: path.read_bytes() for path in (tmp_path / folder / "figure-3").glob("*.csv")}

    subprocess.run([*command, "--output", "unbroken"], cwd=tmp_path, check=True, capture_output=True)
    journal = tmp_path / "killed" / "figure-3" / "trials.jsonl"
    kill_four_times([*command, "--output", "killed"], journal, tmp_path)
    finished = journal.read_text().count("\n")
    assert finished > 0
    printed = subprocess.run([*command, "--output", "killed"], cwd=tmp_path, check=True, capture_output=True, text=True)
    firsts = [
        next(line for line in printed.stderr.splitlines() if line.startswith(word)) for word in ("drift", "tracking")
    ]
    assert sum(int(first.split()[1]) for first in firsts) == finished
    assert files("killed") == files("unbroken")


class TestReproduce:
    def test_the_page_contains_everything(self, toy, tmp_path):
        printed = run("reproduce", "--quick", cwd=tmp_path)
        assert "Report: ocelad-figures/report.html" in printed.stdout
        assert re.search(r"Done in \d+ s\.", printed.stdout)
        page = (tmp_path / "ocelad-figures" / "report.html").read_text()
        assert "the sum &lt;of all&gt;" in page
        assert "for a &amp; reason" in page
        assert "0 agree and 1 do not" in page
        assert "Not at full size" in page
        assert "ocelad figure toy --set trials=2" in page
        assert page.count("data:image/png;base64,") == 1

    def test_the_page_has_no_external_resources(self, toy, tmp_path):
        data, folder = toy.compute(), FigureFolder(tmp_path, toy)
        data.save(folder.path)
        page = make_report([ReportFigure(toy, data, folder.draw(data).read_bytes())])
        assert not re.search(r"<script|<link|https?://|@import|url\(", page)
        assert "1 agree and 0 do not" in page
        assert "Not at full size" not in page

    def test_the_page_names_missing_figures(self):
        page = make_report([], {"4": "no <reviews>"})
        assert "Figure 4: no &lt;reviews&gt;" in page

    @pytest.mark.parametrize("error", [FileNotFoundError, ValueError, ConnectionError])
    def test_figures_with_missing_or_damaged_reviews_are_named(self, toy, tmp_path, monkeypatch, error):
        def fail(runner, reviews_folder, /):
            raise error("the reviews are missing")

        monkeypatch.delitem(FIGURES, "toy")
        monkeypatch.setitem(FIGURES, "4", Figure("4", "Reviews", fail, draw, make_claims, needs_reviews=True))
        monkeypatch.setitem(FIGURES, "toy", toy)
        printed = run("reproduce", "--output", tmp_path, code=3)
        assert "Not computed: the reviews are missing" in printed.stderr
        page = (tmp_path / "report.html").read_text()
        assert "Figure 4: the reviews are missing" in page
        assert "Figure toy: Numbers" in page

    def test_the_failure_of_a_figure_without_reviews_is_an_error(self, toy, tmp_path, monkeypatch):
        def fail(runner, reviews_folder, /):
            raise ValueError("this is wrong")

        monkeypatch.setitem(FIGURES, "9", Figure("9", "Fails", fail, draw, make_claims))
        assert "this is wrong" in run("reproduce", "--output", tmp_path, code=1).stderr

    def test_figures_of_earlier_runs_stay_on_the_page(self, toy, tmp_path, monkeypatch):
        other = replace(toy, name="other", title="Earlier numbers", departures="Done <otherwise>.")
        monkeypatch.setitem(FIGURES, "other", other)
        run("reproduce", "--only", "other", "--output", tmp_path)
        assert (tmp_path / "figure-other" / "figure.png").exists()
        run("reproduce", "--only", "toy", "--output", tmp_path)
        page = (tmp_path / "report.html").read_text()
        assert "Earlier numbers" in page
        assert "Done &lt;otherwise&gt;." in page

    def test_only_some_figures(self, toy, tmp_path):
        printed = json.loads(run("reproduce", "--only", "toy", "--json", "--output", tmp_path).stdout)
        assert list(printed["figures"]) == ["toy"]
        wrong = run("reproduce", "--only", "toy,8", "--output", tmp_path, code=2)
        assert "there is no figure '8'; accepted: toy" in " ".join(wrong.stderr.split())


class TestSettings:
    def test_values_of_another_type_are_rejected(self, toy):
        assert toy.resolve_settings(scale=2)["scale"] == 2
        with pytest.raises(TypeError, match="trials of figure toy must be int, such as 3; got '3'"):
            toy.resolve_settings(trials="3")
        with pytest.raises(TypeError, match="trials of figure toy must be int, such as 3; got True"):
            toy.resolve_settings(trials=True)
        with pytest.raises(ValueError, match="a setting of figure toy must be one of 'trials', 'scale', 'word'"):
            toy.resolve_settings(size=3)

    @pytest.mark.parametrize(
        ("changed", "sentence"),
        [
            ({"methods": "ricee saoll"}, "there is no method 'ricee' .*, and no method 'saoll' "),
            ({"methods": "rice,saol"}, "there is no method 'rice,saol' .on the command line, separate names by spaces"),
            ({"methods": "comid:step_size=0"}, "step_size"),
            ({"every": 9000}, "every must be"),
        ],
    )
    def test_the_methods_of_figure_3_are_checked_with_the_settings(self, changed, sentence):
        with pytest.raises(ValueError, match=sentence):
            FIGURES["3"].resolve_settings(**changed)

    def test_quick_settings_are_settings_of_the_full_size(self):
        for figure in FIGURES.values():
            assert set(figure.quick) <= set(figure.settings)
            assert all(type(value) is type(figure.settings[key]) for key, value in figure.quick.items())
